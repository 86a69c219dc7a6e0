package ticket

import (
	"fmt"

	"allium/protocols/status"
)

// Refusal says why a ticket was refused. The list is closed.
type Refusal string

// The refusals of [Parse], in the order in which it checks, and then those of [Ticket.Check].
const (
	TooLong      Refusal = "too_long"      // more than MaxText characters
	MixedCase    Refusal = "mixed_case"    // upper and lower case
	NoTicket     Refusal = "no_ticket"     // it does not begin with allium1
	BadCharacter Refusal = "bad_character" // a character that bech32m does not have
	BadChecksum  Refusal = "bad_checksum"  // cut short, or mistyped
	Malformed    Refusal = "malformed"     // not the deterministic CBOR of OAP1 §11
	BadVersion   Refusal = "bad_version"   // a version that this program does not know
	BadField     Refusal = "bad_field"     // a member outside of its bounds

	Expired      Refusal = "expired"       // not_after has passed
	OtherNetwork Refusal = "other_network" // for a private network, or for the public one
	Own          Refusal = "own"           // the peer is this node
)

// outcomeOf maps every Refusal to its outcome (SPEC §3).
var outcomeOf = map[Refusal]status.Outcome{
	TooLong: status.BadAddress, MixedCase: status.BadAddress, NoTicket: status.BadAddress,
	BadCharacter: status.BadAddress, BadChecksum: status.BadAddress, Malformed: status.BadAddress,
	BadVersion: status.Unsupported, BadField: status.BadAddress,
	Expired: status.Gone, OtherNetwork: status.NotAllowed, Own: status.Conflict,
}

// reasons say what is wrong, and after a semicolon what to do.
var reasons = map[Refusal]string{
	TooLong:      fmt.Sprintf("the ticket has more than %d characters; copy it again, and nothing around it", MaxText),
	MixedCase:    "the ticket has upper-case and lower-case letters; copy it again as it was sent",
	NoTicket:     "the text is not a ticket: it does not begin with " + prefix + "1; copy the whole ticket",
	BadCharacter: "the ticket has a character that no ticket has; copy it again, and nothing around it",
	BadChecksum:  "the ticket is cut short or mistyped: its checksum is wrong; copy the whole ticket again",
	Malformed:    "the ticket is malformed; ask for a new one",
	BadVersion:   "the ticket is of another version than this program knows; update allium",
	BadField:     "the ticket is malformed; ask for a new one",
	Expired:      "the ticket has expired; ask for a new one",
	OtherNetwork: "the ticket is for another network",
	Own:          "the ticket names this node, which shares the object itself; use the ticket on another machine",
}

// Error reports a refused ticket. It never quotes the ticket, which is a secret.
type Error struct {
	Refusal Refusal
	Detail  string // replaces the words for the Refusal; may be empty
}

// Error says what is wrong with the ticket and what to do, in the form of [status.Error].
func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return reasons[e.Refusal]
}

// Status returns the outcome of the refusal.
func (e *Error) Status() status.Outcome { return outcomeOf[e.Refusal] }

func refuse(r Refusal) error { return &Error{Refusal: r} }

// badField refuses a member of a ticket.
func badField(why string) error {
	return &Error{BadField, "the ticket is malformed: " + why + "; ask for a new one"}
}
