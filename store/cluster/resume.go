package cluster

// Resume has all copies made again that are missing, though many members vanished together: those that are silent now
// do not come back. It returns how many these are. This node alone acts on it.
func (k *Keeper) Resume() (silent int) {
	silent = k.deps.Members.Resume()
	k.Hurry()
	return silent
}
