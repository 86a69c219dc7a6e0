package weblink

import "allium/protocols/status"

// Held is a link on the node's public listener alone, until Close.
type Held struct {
	l    *link
	base string
}

// Hold opens a link without a listener of its own. It returns unsupported if the public listener has no address that
// others than this machine can open.
func (s *Set) Hold(o Options) (*Held, error) {
	at := onGateway(s.deps.Gateway(), "")
	if len(at) == 0 {
		return nil, status.Errorf(status.Unsupported, "its gateway has no address that others can open")
	}
	l, err := s.open(o)
	if err != nil {
		return nil, err
	}
	return &Held{l, at[0].URL}, nil
}

// URL returns the link.
func (h *Held) URL() string { return h.base + h.l.path() }

// Take returns what happened since its last call. ended means that nothing more happens.
func (h *Held) Take() (all []Event, ended bool) { return h.l.take(h.l.set.deps.Now()) }

// Close ends the link. It is called once.
func (h *Held) Close() { h.l.set.end(h.l) }
