package kad

// String returns the name of the kind.
func (k Kind) String() string { return [...]string{"probe", "hedge", "cancel", "done"}[k] }
