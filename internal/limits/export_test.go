package limits

// Len returns how many keys are remembered.
func (s *FairRate[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

// Used returns how many bytes all holders have.
func (m *FairBudget[K]) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
