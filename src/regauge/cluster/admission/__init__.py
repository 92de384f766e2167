"""What happens to an object on its way into the store: defaults, changes by admission, and the reasons to refuse it."""
