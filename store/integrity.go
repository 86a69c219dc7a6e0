package store

import (
	"context"
	"fmt"

	"allium/protocols/status"
	"allium/store/meta"
)

// blockedBy says why damage keeps everything from being removed.
func blockedBy(open int) string {
	what := "1 finding is"
	if open > 1 {
		what = fmt.Sprintf("%d findings are", open)
	}
	return fmt.Sprintf("the store is damaged (%s open), so what is kept is not known for sure; `allium store damage` lists it and says what to do", what)
}

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

// lost reports whether the object of a pin is not here, though Pin saw it: it
// was lost. p may have been removed since it was read.
func (s *Store) lost(ctx context.Context, p meta.Pin) (bool, error) {
	if err := s.admit(ctx); err != nil {
		return false, err
	}
	defer s.leave()
	// Not find: a removal that is under way finds the pin and is given up.
	if _, ok, err := s.backend.Get(p.Root); ok || err != nil {
		return false, err
	}
	// A pin that is still there was there all the time: none is set on what is absent.
	return s.hasPin(p)
}

// hasPin reports whether there is a pin of that object with that label.
func (s *Store) hasPin(p meta.Pin) (bool, error) {
	page, err := s.backend.Pins(p.Root, p.Label, make([]meta.Pin, 0, 1))
	return len(page) == 1 && page[0].Root == p.Root && page[0].Label == p.Label, err
}
