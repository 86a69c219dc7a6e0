package api

import "time"

// Resumed is the result of ending the time in which only last copies are sent.
type Resumed struct {
	Silent int `json:"silent"` // members that are silent now, and taken not to come back
}

// Evacuation says how far a node is with handing its copies over to the other members of its cluster.
type Evacuation struct {
	Since     time.Time `json:"since"`         // when it was asked to
	Ready     bool      `json:"ready"`         // it has looked at all pins since then; before, numbers are not final
	Objects   int       `json:"objects"`       // that it holds and that pins ask copies of
	Left      int       `json:"left"`          // of them, that fewer others proved since than are asked for
	LeftBytes int64     `json:"left_bytes"`    // of these
	Stuck     int       `json:"stuck"`         // of those that are left, that too few others can hold
	Alone     int       `json:"alone"`         // pins that ask for no copies: what they keep is on this node alone
	Why       string    `json:"why,omitempty"` // it does not go on now; empty: it does
	Done      bool      `json:"done"`          // no object that pins ask copies of needs the copy here
}
