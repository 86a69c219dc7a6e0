package store

import "allium/protocols/status"

// errIntegrity is why the store takes nothing new from its users.
var errIntegrity = status.Errorf(status.NotReady, "the store lost records, and nobody can tell which, so it takes no writes; `allium store damage` lists what is lost: wait until peers have given it back, or accept the loss with `allium store damage --accept`")

// Integrity returns not_ready while records are lost of which nobody can tell
// whose they were. Then callers refuse what users add, upload and pin. The store
// itself takes what is repaired and fetched.
func (s *Store) Integrity() error {
	if _, unknown := s.OpenDamage(); unknown > 0 {
		return errIntegrity
	}
	return nil
}
