package delimited_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/delimited"
	"allium/protocols/status"
)

func TestFailure(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	reset := func(remote bool, c network.StreamErrorCode) error {
		return fmt.Errorf("read: %w", &network.StreamError{ErrorCode: c, Remote: remote})
	}
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want status.Outcome
	}{
		"busy":           {t.Context(), reset(true, network.StreamResourceLimitExceeded), status.Busy},
		"rate":           {gone, reset(true, network.StreamRateLimited), status.RateLimit},
		"our own reset":  {t.Context(), reset(false, network.StreamRateLimited), status.Upstream},
		"ended":          {gone, io.EOF, status.Canceled},
		"typed":          {t.Context(), status.Errorf(status.Stale, "old"), status.Stale},
		"somebody's bug": {t.Context(), io.ErrUnexpectedEOF, status.Upstream},
	} {
		if got := delimited.Failure(tc.ctx, tc.err); status.Of(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzRead: in whatever pieces the bytes come, what is read is what was written,
// nothing above the limit is, and the end is told from a cut.
func FuzzRead(f *testing.F) {
	const limit = 100
	var two bytes.Buffer
	_ = delimited.Write(&two, []byte("one"))
	_ = delimited.Write(&two, nil)
	for _, p := range [][]byte{
		nil, {0}, {3, 1}, {0x80}, {0x80, 0}, {101}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, two.Bytes(),
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r := bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(p)), 16)
		var again bytes.Buffer
		for {
			m, err := delimited.Read(r, limit)
			if err != nil {
				if errors.Is(err, io.EOF) && again.Len() != len(p) {
					t.Errorf("%x ends cleanly after %d bytes", p, again.Len())
				}
				break
			}
			if len(m) > limit {
				t.Errorf("a message of %d bytes", len(m))
			}
			if err := delimited.Write(&again, m); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(p, again.Bytes()) {
			t.Errorf("%x was read as %x", p, again.Bytes())
		}
	})
}
