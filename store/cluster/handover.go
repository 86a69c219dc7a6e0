package cluster

// StartHandover has this node hand its copies over to other members, and says so in its offers, until StopHandingOver.
// A restart does not end it. Calling it again has all copies proved once more.
func (k *Keeper) StartHandover() error {
	if _, err := k.deps.Members.Drain(); err != nil {
		return err
	}
	k.Service.StartHandover()
	return nil
}

// StopHandingOver makes this node a full member again.
func (k *Keeper) StopHandingOver() error { return k.deps.Members.StopDraining() }
