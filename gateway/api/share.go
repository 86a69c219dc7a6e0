package api

import (
	"time"

	"allium/protocols/b3"
)

// ShareOptions modify Share.
type ShareOptions struct {
	Name string        // suggested for the output; empty: the last name of the key, or none
	For  time.Duration // how long the ticket works; 0: it does not say
}

// PeerHas is the answer of a peer about the part of an object that it has.
type PeerHas struct {
	Peer string  `json:"peer"`
	Root b3.Root `json:"root"`
	Has  string  `json:"has"` // "all", "part" or "nothing"
}

// Shared is an object that a ticket leads to.
type Shared struct {
	Ticket   string    `json:"ticket"` // a secret: anyone who has it can fetch the object
	Root     b3.Root   `json:"root"`
	Kind     Kind      `json:"kind"`
	Size     int64     `json:"size"`               // bytes of the object; for a directory, of its manifest
	Reach    string    `json:"reach"`              // for whom it works: this machine, this local network, anyone
	NotAfter time.Time `json:"not_after,omitzero"` // the end; zero: none
}
