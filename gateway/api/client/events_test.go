package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// named is a server-sent event.
type named struct{ name, data string }

// parse returns the events of a stream and why it ended.
func parse(stream string) (all []named, err error) {
	err = readEvents(strings.NewReader(stream), func(name string, data []byte) error {
		all = append(all, named{name, string(data)})
		return nil
	})
	return all, err
}

// TestReadEvents: the forms of server-sent events that a node or a proxy may send.
func TestReadEvents(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string][]named{
		"id: 1\nevent: pins\ndata: {}\n\nevent: peers\ndata: {}\n\n": {{"pins", "{}"}, {"peers", "{}"}},
		":\n\n: comment\n\ndata: a\n\n":                              {{"", "a"}},
		"event:pins\r\ndata:{}\r\n\r\n":                              {{"pins", "{}"}},
		"data: a\ndata: b\ndata:  c\n\n":                             {{"", "a\nb\n c"}},
		"event: pins\n\ndata: a\n\n":                                 {{"", "a"}},
		"retry: 5\nodd\ndata\ndata: a\n\n":                           {{"", "a"}},
		"data: cut\n":                                                nil,
	} {
		if got, err := parse(stream); !slices.Equal(got, want) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: got %q, %v; want %q", stream, got, err, want)
		}
	}
	line := "data: " + strings.Repeat("x", maxLine/2) + "\n"
	for _, long := range []string{"data: " + strings.Repeat("x", maxLine), line + line + line} {
		if got, err := parse(long); got != nil || !errors.Is(err, bufio.ErrTooLong) {
			t.Errorf("%d bytes: %d events, %v", len(long), len(got), err)
		}
	}
}

// FuzzReadEvents: what was read and is written again is read as the same, and no event
// is longer than the bound.
func FuzzReadEvents(f *testing.F) {
	f.Add("id: 1\nevent: pins\ndata: {}\n\n:\n\nevent: end\ndata: {\"reason\":\"draining\"}\n\n")
	f.Add("data: a\r\ndata: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, stream string) {
		first, _ := parse(stream)
		var b bytes.Buffer
		for _, e := range first {
			if len(e.data) > maxLine || e.data == "" {
				t.Fatalf("an event of %d bytes", len(e.data))
			}
			fmt.Fprintf(&b, "event: %s\n", e.name)
			for line := range strings.SplitSeq(e.data, "\n") {
				if strings.HasSuffix(line, "\r") || strings.HasSuffix(e.name, "\r") {
					return // a second carriage return, which a reader takes off again
				}
				fmt.Fprintf(&b, "data: %s\n", line)
			}
			b.WriteString("\n")
		}
		if again, _ := parse(b.String()); !slices.Equal(first, again) {
			t.Errorf("%q became %q", first, again)
		}
	})
}

// TestEventsEnd: the sequence ends with the reason that the node gives, and an answer
// without one was cut.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	const pin = "id: 1\nevent: pins\ndata: {\"topic\":\"pins\",\"kind\":\"removed\",\"at\":\"2026-01-02T03:04:05Z\"}\n\n"
	for answer, want := range map[string]status.Outcome{
		pin + "event: end\ndata: {\"reason\":\"draining\",\"message\":\"stopping\"}\n\n": status.Draining,
		pin:                                    status.TransportDown,
		pin + "event: pins\ndata: no JSON\n\n": status.Upstream,
		pin + "event: end\ndata: no JSON\n\n":  status.Upstream,
		pin + strings.Repeat("x", maxLine+1):   status.Upstream,
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.RequestURI(); got != "/api/v1/events?topics=pins%2Cpeers" {
				t.Errorf("requested is %s", got)
			}
			_, _ = io.WriteString(w, answer)
		})
		read := 0
		var end error
		for e, err := range c.Events(t.Context(), EventOptions{Topics: []api.Topic{api.TopicPins, api.TopicPeers}}) {
			if end = err; err == nil {
				read++
				if e.Topic != api.TopicPins || e.Kind != api.EventRemoved {
					t.Errorf("got %+v", e)
				}
			}
		}
		if read != 1 || status.Of(end) != want {
			t.Errorf("%.90q: %d events, %v; want %s", answer, read, end, want)
		}
		// a caller that stops early
		for range c.Events(t.Context(), EventOptions{Topics: []api.Topic{api.TopicPins, api.TopicPeers}}) {
			break
		}
	}
}
