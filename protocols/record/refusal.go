package record

import "allium/protocols/status"

// RefusedError reports a refused record. R is the closed list of words that say why.
type RefusedError[R ~string] struct {
	Kind    string // of the record, such as "name record"
	Refusal R
	Outcome status.Outcome
	Err     error // the cause; may be nil
}

// Error says why the record was refused.
func (e *RefusedError[R]) Error() string {
	if e.Err == nil {
		return e.Kind + " refused: " + string(e.Refusal)
	}
	return e.Kind + " refused: " + string(e.Refusal) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *RefusedError[R]) Unwrap() error { return e.Err }

// Status returns the outcome of the refusal.
func (e *RefusedError[R]) Status() status.Outcome { return e.Outcome }
