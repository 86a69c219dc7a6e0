package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"allium/gateway/api"
	"allium/protocols/status"
)

// eventsPath is the path of the stream of events.
const eventsPath = api.PathPrefix + "events"

// EventOptions say which events a caller wants.
type EventOptions struct {
	Topics []api.Topic // empty: all
	// Names are the names to follow, at most api.MaxEventNames. The node takes up every new
	// record of them, and events of other names are left out. Empty: all that the node knows.
	Names []string
	// Begun is called once, before the first event, when no later event is missed; nil: not.
	Begun func()
}

// Events yields what happens in the node from now on. An event of [api.TopicLagged] tells
// how many events the caller lost because it was too slow. The sequence ends with an error
// only: that of ctx, draining when the node stops, busy when the node has too many readers
// of events.
func (c *Client) Events(ctx context.Context, o EventOptions) iter.Seq2[api.Event, error] {
	topics := make([]string, len(o.Topics))
	for i, t := range o.Topics {
		topics[i] = string(t)
	}
	q := url.Values{}
	if len(topics) > 0 {
		q.Set("topics", strings.Join(topics, ","))
	}
	if len(o.Names) > 0 {
		q.Set("names", strings.Join(o.Names, ","))
	}
	return func(yield func(api.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.call(ctx, http.MethodGet, eventsPath, q, nil)
		if err != nil {
			yield(api.Event{}, err)
			return
		}
		defer resp.Body.Close()
		if o.Begun != nil {
			o.Begun()
		}
		err = readEvents(resp.Body, func(name string, data []byte) error {
			if name == api.EventStreamEnd {
				var why status.Report
				if err := decode(eventsPath, data, &why); err != nil {
					return err
				}
				return why.Err(status.Internal.Code())
			}
			var e api.Event
			if err := decode(eventsPath, data, &e); err != nil {
				return err
			}
			if !yield(e, nil) {
				return errStop
			}
			return nil
		})
		var s *status.Error
		switch {
		case errors.Is(err, errStop):
		case errors.Is(err, bufio.ErrTooLong):
			yield(api.Event{}, unexpected(eventsPath, err))
		case errors.As(err, &s):
			yield(api.Event{}, err)
		default:
			yield(api.Event{}, callError(ctx, eventsPath, err))
		}
	}
}

// readEvents passes the name and the data of each server-sent event to each, until each
// returns an error or r ends. It never returns nil. Data of several lines is joined with
// line breaks. An event without data, such as a heartbeat, is skipped.
func readEvents(r io.Reader, each func(name string, data []byte) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4<<10), maxLine)
	name := ""
	var data []byte
	for sc.Scan() {
		field, value, _ := bytes.Cut(sc.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(sc.Bytes()) == 0: // the end of an event
			if data != nil {
				if err := each(name, data); err != nil {
					return err
				}
			}
			name, data = "", nil
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			if data != nil {
				data = append(data, '\n')
			}
			if data = append(data, value...); len(data) > maxLine {
				return bufio.ErrTooLong
			}
		}
	}
	if err := sc.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
