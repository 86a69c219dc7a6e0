package failure_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"allium/cmd/allium/failure"
	"allium/protocols/status"
)

func TestOf(t *testing.T) {
	t.Parallel()
	address := "b3:" + strings.Repeat("0", 60) + "1f0a"
	missing := status.Errorf(status.NotFound, "%s is not in the store; start a node", address)
	get := failure.Task{Verb: "get", Subject: address, Help: "allium get --help"}
	busy := status.BusyError(status.Busy,
		status.Limit{Name: "x", Current: 3, Cap: 3, RetryAfter: 1500 * time.Millisecond})
	for name, c := range map[string]struct {
		err     error
		task    failure.Task
		outcome status.Outcome
		want    string
	}{
		"the reason names the address": {
			missing, get, status.NotFound, "cannot get: b3:0000…1f0a is not in the store. Start a node.",
		},
		"it does not": {
			status.Errorf(status.NotFound, "no node has it; start a node"), get, status.NotFound,
			"cannot get b3:0000…1f0a: no node has it. Start a node.",
		},
		"wraps are not in it": {
			fmt.Errorf("client: get: %w", missing), get, status.NotFound,
			"cannot get: b3:0000…1f0a is not in the store. Start a node.",
		},
		"the subject is part of a word": {
			status.Errorf(status.Upstream, "this is no manifest; take another"),
			failure.Task{Verb: "trust", Subject: "f"},
			status.Upstream, "cannot trust f: this is no manifest. Take another.",
		},
		"a file that is missing": {
			fmt.Errorf("add: %w", &fs.PathError{Op: "open", Path: "a\x1b[31m", Err: syscall.ENOENT}),
			failure.Task{Verb: "add"},
			status.NotFound, `cannot add: there is no a\x1b[31m. Check the name.`,
		},
		"a file of somebody else": {
			&fs.PathError{Op: "open", Path: "a", Err: syscall.EACCES}, failure.Task{Verb: "add"}, status.Forbidden,
			"cannot add: this user may not open a. Change its permissions, or run the command as its owner.",
		},
		"a limit": {
			busy, get, status.Busy, "cannot get b3:0000…1f0a: x is at its limit (3 of 3). Try again in 1.5s.",
		},
		"a result": {
			failure.Found(status.Errorf(status.Corrupt, "2 objects are bad; fetch them")), get, status.Corrupt,
			"2 objects are bad. Fetch them.",
		},
		"about a file": {
			failure.In("photo.jpg", status.Errorf(status.Conflict, "it changed; add it again")),
			failure.Task{Verb: "add"},
			status.Conflict, "cannot add: photo.jpg: it changed. Add it again.",
		},
		"the command line": {
			failure.NewUsage("did you mean --home? See `x`", "there is no flag --%s", "hom"), get, status.BadRequest,
			"cannot get b3:0000…1f0a: there is no flag --hom. Did you mean --home? See `x`.",
		},
		"advice by the outcome": {
			status.Errorf(status.NoSpace, "the store is full"), get, status.NoSpace,
			"cannot get b3:0000…1f0a: the store is full. Make space with `allium gc run --all`, or raise " +
				"store.max_bytes.",
		},
		"other advice": {
			status.Errorf(status.Unauthenticated, "it needs a capability; get one"),
			failure.Task{Verb: "get", Advice: "set $X"}, status.Unauthenticated,
			"cannot get: it needs a capability. Set $X.",
		},
		"a sentence already": {
			status.Errorf(status.NoBootstrap, "cannot find it: no peers yet. Check the seeds."), get,
			status.NoBootstrap,
			"cannot find it: no peers yet. Check the seeds.",
		},
		"two errors": {
			errors.Join(missing, nil, missing, errors.New("the disk is gone")), get, status.NotFound,
			"cannot get: b3:0000…1f0a is not in the store. Start a node.\n" +
				"the disk is gone. This is a bug in allium: run it with --log-level debug and report what it prints.",
		},
		"a joined list": {
			status.Errorf(status.BadRequest, "config: %w", errors.Join(errors.New("a is 1; take it out"),
				errors.New("b is bad"))),
			failure.Task{Verb: "run", Help: "allium run --help"}, status.BadRequest,
			"cannot run: a is 1. Take it out.\nb is bad. See `allium run --help`.",
		},
		"a list": {
			status.Errorf(status.BadRequest, "2 entries are bad; rename them:\n  a: b\n  c: d"),
			failure.Task{Verb: "add"},
			status.BadRequest, "cannot add: 2 entries are bad. Rename them:\n  a: b\n  c: d",
		},
		"the cause after the advice": {
			status.Errorf(status.TransportDown, "it is down; try again: %w",
				&fs.PathError{Op: "dial", Path: "x", Err: syscall.ECONNREFUSED}),
			get, status.TransportDown, "cannot get b3:0000…1f0a: it is down (connection refused). Try again.",
		},
		"semicolons": {
			status.Errorf(status.Upstream, `it sent "a; b"; ask another; or wait`),
			failure.Task{Verb: "read"}, status.Upstream,
			`cannot read: it sent "a; b". Ask another. Or wait.`,
		},
		"a link": {
			status.Errorf(status.NotFound, "it is off; wait"), failure.Task{Verb: "connect", Link: "to", Subject: "x"},
			status.NotFound, "cannot connect to x: it is off. Wait.",
		},
		"no link without a subject": {
			status.Errorf(status.NotFound, "x is off; wait"), failure.Task{Verb: "connect", Link: "to", Subject: "x"},
			status.NotFound, "cannot connect: x is off. Wait.",
		},
		"no type": {
			errors.New("a: b"), failure.Task{}, status.Internal,
			"a: b. This is a bug in allium: run it with --log-level debug and report what it prints.",
		},
		"a control character": {
			status.Errorf(status.BadRequest, "\x1b[31mred\u202e"), failure.Task{},
			status.BadRequest, `\x1b[31mred\u202e.`,
		},
	} {
		f := failure.Of(c.err, c.task)
		if f.Outcome != c.outcome || f.Sentence != c.want {
			t.Errorf("%s: %s\n%s\nwant %s\n%s", name, f.Outcome, f.Sentence, c.outcome, c.want)
		}
		if f.Report.Message != f.Sentence || f.Report.Reason != f.Outcome.String() {
			t.Errorf("%s: the report is %+v", name, f.Report)
		}
	}
}

// TestReport: --json has the members of the error, and debug its chain.
func TestReport(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("find: %w", &status.Error{Outcome: status.Timeout, Message: "no answer", LookupID: "l-1",
		Detail: "d"})
	f := failure.Of(err, failure.Task{Verb: "find"})
	if f.Report.LookupID != "l-1" || f.Report.Detail != "d" {
		t.Errorf("%+v", f.Report)
	}
	want := []string{"*fmt.wrapError: find: no answer", "*status.Error: no answer"}
	if fmt.Sprint(f.Chain) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", f.Chain, want)
	}
}
