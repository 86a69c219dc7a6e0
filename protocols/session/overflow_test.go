package session_test

import (
	"testing"

	"allium/protocols/session"
)

func TestOverflow(t *testing.T) {
	for in, ok := range map[session.Overflow]bool{"reject": true, "drop_oldest": true, "": false, "Reject": false} {
		if err := in.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", in, err)
		}
	}
}
