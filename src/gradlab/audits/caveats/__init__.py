"""What a design cannot attribute, one reason per file."""
