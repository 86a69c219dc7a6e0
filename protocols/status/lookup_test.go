package status_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"allium/protocols/status"
)

func TestLookupIDText(t *testing.T) {
	for range 100 {
		id := status.NewLookupID()
		if got, ok := status.ParseLookupID(id.String()); !ok || got != id {
			t.Fatalf("%d is written %q and read %d, %t", uint64(id), id, uint64(got), ok)
		}
	}
	if got := status.LookupID(0xa1).String(); got != "00000000000000a1" {
		t.Errorf("got %q", got)
	}
	if got := status.LookupID(0).String(); got != "" {
		t.Errorf("no lookup is written %q", got)
	}
	for _, bad := range []string{
		"", "a1", "0000000000000000", "00000000000000A1", "00000000000000a1 ", "g000000000000000",
	} {
		if id, ok := status.ParseLookupID(bad); ok {
			t.Errorf("%q is read as %s", bad, id)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = status.NewLookupID() }); n != 0 {
		t.Errorf("a new ID costs %v allocations", n)
	}
}

func TestWithLookup(t *testing.T) {
	const id = status.LookupID(0xb2)
	limit := status.BusyError(status.Busy, status.Limit{Name: "x", Cap: 3})
	named := &status.Error{Outcome: status.Timeout, Message: "m", LookupID: "other"}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{limit, id.String()},
		{fmt.Errorf("a: %w", limit), id.String()},
		{context.Canceled, id.String()},
		{errors.Join(status.Errorf(status.Corrupt, "here"), named), id.String()},
		{named, "other"},
		{fmt.Errorf("a: %w", named), "other"},
		{status.Errorf(status.Upstream, "a: %w", status.WithLookup(limit, 7)), status.LookupID(7).String()},
		{&status.Error{LookupID: "outer", Err: status.WithLookup(limit, 7)}, "outer"},
	} {
		got := status.WithLookup(tc.err, id)
		rep, before := status.ReportOf(got), status.ReportOf(tc.err)
		if rep.LookupID != tc.want {
			t.Errorf("%v: got lookup %q, want %q", tc.err, rep.LookupID, tc.want)
		}
		if rep.LookupID = before.LookupID; rep != before {
			t.Errorf("%v: got report %+v, want %+v", tc.err, rep, before)
		}
		if !errors.Is(got, tc.err) || status.Of(got) != status.Of(tc.err) {
			t.Errorf("%v: the chain or the outcome changed: %v", tc.err, got)
		}
	}
	if err := status.WithLookup(nil, id); err != nil {
		t.Errorf("nil became %v", err)
	}
	if err := status.WithLookup(limit, 0); !errors.Is(err, limit) {
		t.Errorf("an error without a lookup became %v", err)
	}
}
