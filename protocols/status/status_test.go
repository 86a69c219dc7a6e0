package status_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestTable compares the code with testdata/outcomes.txt, a copy of the table of SPEC §3. A line
// holds label, code, exit code and retry.
func TestTable(t *testing.T) {
	f, err := os.Open("testdata/outcomes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	retries := map[string]status.Retry{
		"never": status.RetryNever, "later": status.RetryLater, "maybe": status.RetryMaybe,
		"elsewhere": status.RetryElsewhere,
		"after":     status.RetryAfter, "yes": status.RetryYes, "space": status.RetrySpace,
	}
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var label, retry string
		var code, exit int
		if _, err := fmt.Sscan(line, &label, &code, &exit, &retry); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		o, ok := status.Parse(label)
		if !ok {
			t.Errorf("%s is missing from the table", label)
			continue
		}
		if o.Code() != code || o.Exit() != exit || o.Retry() != retries[retry] {
			t.Errorf("%s: got %d, %d, %d; want %d, %d, %s", label, o.Code(), o.Exit(), o.Retry(), code, exit, retry)
		}
		n++
	}
	if all := status.All(); n != len(all) {
		t.Errorf("the transcript has %d outcomes, the code %d", n, len(all))
	}
}

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want status.Outcome
	}{
		{nil, status.OK},
		{errors.New("anything"), status.Internal},
		{fmt.Errorf("a: %w", status.Errorf(status.NotFound, "b")), status.NotFound},
		{fmt.Errorf("a: %w", context.Canceled), status.Canceled},
		{fmt.Errorf("a: %w", context.DeadlineExceeded), status.Timeout},
		{fmt.Errorf("a: %w", os.ErrDeadlineExceeded), status.Timeout},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, status.NoSpace},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, status.NotReady},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, status.NotReady},
		{status.Errorf(status.Corrupt, "group 3: %w", context.Canceled), status.Corrupt},
	} {
		if got := status.Of(tc.err); got != tc.want {
			t.Errorf("Of(%v) = %s, want %s", tc.err, got, tc.want)
		}
	}
}

func TestReportRoundTrip(t *testing.T) {
	in := &status.Error{
		Outcome: status.Busy, Message: "full", Detail: "d", LookupID: "01H",
		Limit: &status.Limit{Name: "gateway.inflight", Current: 512, Cap: 512, RetryAfter: 250 * time.Millisecond},
	}
	raw, err := json.Marshal(status.ReportOf(fmt.Errorf("get: %w", in)))
	if err != nil {
		t.Fatal(err)
	}
	var r status.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	var out *status.Error
	if !errors.As(r.Err(429), &out) {
		t.Fatal("no *status.Error")
	}
	in.Message = "get: full"
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v, want %+v", out, in)
	}
}

func TestReportUnknownReason(t *testing.T) {
	for code, want := range map[int]status.Outcome{404: status.NotFound, 429: status.Busy, 503: status.BreakerOpen,
		599: status.Upstream} {
		if got := status.Of(status.Report{Reason: "new-thing"}.Err(code)); got != want {
			t.Errorf("code %d: got %s, want %s", code, got, want)
		}
	}
}

func TestErrorfKeepsCause(t *testing.T) {
	err := status.Errorf(status.NoSpace, "store: put: %w", syscall.ENOSPC)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error("the cause is lost")
	}
}
