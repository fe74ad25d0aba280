# A script in another language: prints a score that depends on a seed and on a drift.
#
#   awk -v seed=0 -v drift=0.1 -f random_walk.awk

BEGIN {
    srand(seed)
    for (step = 1; step <= 50; step++) {
        place += drift + rand() - 0.5
        if (step % 10 == 0) print "step " step " score: " place
    }
}
