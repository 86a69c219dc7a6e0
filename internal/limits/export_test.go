package limits

// Len returns how many keys are remembered.
func (s *FairRate[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}
