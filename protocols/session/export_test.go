package session

// Entries is how many peers the service has something for.
func (s *Service) Entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}
