package cluster

import (
	"context"
	"errors"
	"testing"

	"allium/gateway/policy/audit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// log is an audit log.
type log struct {
	err    error
	events []audit.Event
}

func (l *log) Mutation(_ context.Context, e audit.Event) (uint64, error) {
	l.events = append(l.events, e)
	return uint64(len(l.events)), l.err
}
func (l *log) Outcome(_ context.Context, e audit.Event) { l.events = append(l.events, e) }
func (*log) Refused(audit.Event)                        {}

// TestDropsAreRecorded: the audit log says that a copy is dropped, and how that ended. Without a record the copy
// stays.
func TestDropsAreRecorded(t *testing.T) {
	t.Parallel()
	root := b3.Root{1}
	l := &log{}
	k := &Keeper{deps: Deps{Audit: l}}
	ended, err := k.dropping(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	ended(status.Errorf(status.NoSpace, "full"))
	if len(l.events) != 2 || l.events[0].Method != "drop" ||
		l.events[0].Object != root.String() || !l.events[0].Frees ||
		l.events[1].Of != 1 || l.events[1].Outcome != "no_space" {
		t.Errorf("recorded %+v", l.events)
	}
	l.err = errors.New("full")
	if _, err := k.dropping(t.Context(), root); !errors.Is(err, l.err) {
		t.Errorf("without a record: %v", err)
	}
	k.deps.Audit = nil
	if ended, err := k.dropping(t.Context(), root); err != nil {
		t.Error(err)
	} else {
		ended(nil)
	}
}
