package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// heartbeatEvery is the longest time that a stream of events is silent. The node then sends a
// comment, so that the reader and whatever is between them know that the stream still runs, and
// a reader that is gone is noticed.
const heartbeatEvery = 15 * time.Second

// feed streams the events of the node.
type feed struct {
	events     *limits.Events[*api.Event] // nil: there are none
	followName FollowName                 // nil: readers cannot follow names
}

// endpoint returns the route of the stream of events.
func (f *feed) endpoint() exchange.Endpoint {
	topics := make([]string, 0, len(api.Topics()))
	for _, t := range api.Topics() {
		topics = append(topics, string(t))
	}
	return exchange.Endpoint{
		ID: "Events", Path: "events", Methods: exchange.Getting, Events: true,
		Doc: "Streams what happens in the node as server-sent events, until the reader leaves or the node stops.",
		More: "The name of an event is its topic, its data is an Event, and its id counts the reader's events, " +
			"those it lost too. There is no history: a stream begins with what happens after its header was sent. A " +
			"reader may lag 1,024 events behind; then it loses the oldest, and an event `lagged` with the number " +
			"comes before the next one. A comment comes after 15 s of silence. The last event is `end`; its data is " +
			"a Report, with reason `draining` when the node stops. A stream without it was cut. A reader that takes " +
			"nothing is cut off.",
		Params: []exchange.Param{{
			Name: "topics", Doc: "the topics to stream, separated by commas: " + strings.Join(topics,
				", ") + "; empty: all",
		}, {
			Name: "names",
			Doc: "names to follow, separated by commas, at most 64: the node takes up every new record of " +
				"them, and events of other names are left out; empty: all names that the node publishes or remembers",
		}},
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.EventsBody[api.Event](), Headers: []string{"Cache-Control"},
			Doc: "the events",
		}},
		Serve: f.serve,
	}
}

// serve streams events. It closes the connection at the end, because the next request on the
// socket must not inherit the stream's write deadline.
func (f *feed) serve(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if f.events == nil {
		return status.Errorf(status.Unsupported, "this node reports no events")
	}
	var topics []string
	if v := in.Query.Text("topics"); v != "" {
		topics = strings.Split(v, ",")
	}
	if !r.ProtoAtLeast(1, 1) {
		return errNoLength
	}
	sub, err := f.events.Subscribe(topics...)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, release, err := f.follow(r.Context(), in.Query.Text("names"))
	if err != nil {
		return err
	}
	defer release()
	h := w.Header()
	h.Set("Content-Type", exchange.MediaEvents)
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	w.WriteHeader(http.StatusOK)
	if err := w.Flush(); err != nil {
		return err
	}
	s := eventStream{w: w, names: names}
	err = s.copy(r.Context(), sub)
	if err = exchange.CauseOf(r.Context(), err); w.Failed != nil || status.Of(err) == status.Canceled {
		return err // the reader is gone
	}
	w.Reported = err
	return s.end(err)
}

// follow follows the names of list, which commas separate, until release is called. It returns
// them with the keys of their zones. An empty list is nil.
func (f *feed) follow(ctx context.Context, list string) (names []string, release func(), err error) {
	var all []func()
	release = func() {
		for _, end := range all {
			end()
		}
	}
	if list == "" {
		return nil, release, nil
	}
	texts := strings.Split(list, ",")
	if len(texts) > api.MaxEventNames {
		return nil, nil, status.Errorf(status.BadRequest,
			"a reader of events can follow %d names, not %d; use several readers", api.MaxEventNames, len(texts))
	}
	if f.followName == nil {
		return nil, nil, status.Errorf(status.Unsupported, "this node follows no names")
	}
	for _, text := range texts {
		full, end, err := f.followName(ctx, text)
		if err != nil {
			release()
			return nil, nil, err
		}
		names, all = append(names, full), append(all, end)
	}
	return names, release, nil
}

// eventStream writes server-sent events. One goroutine uses it.
type eventStream struct {
	w     *exchange.Response
	names []string // the only names whose events are sent; nil: all
	id    int64    // events delivered and lost so far
}

// copy sends the events of sub until it ends, or ctx does, and returns why.
func (s *eventStream) copy(ctx context.Context, sub *limits.Subscription[*api.Event]) error {
	for {
		e, lagged, err := next(ctx, sub)
		switch {
		case err != nil:
		case e == nil:
			err = s.send([]byte(":\n\n")) // a comment
		case lagged == 0 && s.skips(e):
		default:
			err = s.event(e, lagged)
		}
		if err == nil && sub.Len() == 0 {
			err = s.w.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// skips reports whether an event is about a name that the reader does not follow.
func (s *eventStream) skips(e *api.Event) bool {
	return e.Name != nil && s.names != nil && !slices.Contains(s.names, e.Name.Name)
}

// next waits for the next event. It returns nil after heartbeatEvery without one.
func next(ctx context.Context, sub *limits.Subscription[*api.Event]) (e *api.Event, lagged int64, err error) {
	wait, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()
	e, lagged, err = sub.Next(wait)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return nil, 0, nil
	}
	return e, lagged, err
}

// event sends an event, and before it how many were lost.
func (s *eventStream) event(e *api.Event, lagged int64) error {
	if lagged > 0 {
		s.id += lagged
		err := s.encode(api.TopicLagged, api.Event{Topic: api.TopicLagged, At: time.Now().UTC(), Lost: lagged})
		if err != nil {
			return err
		}
	}
	if s.skips(e) {
		return nil
	}
	s.id++
	return s.encode(e.Topic, e)
}

// end sends the last event, which says why the stream ends.
func (s *eventStream) end(err error) error {
	if err := s.encode(api.EventStreamEnd, status.ReportOf(err)); err != nil {
		return err
	}
	return s.w.Flush()
}

// encode sends one event with v as JSON, which has no line breaks.
func (s *eventStream) encode(name api.Topic, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", s.id, name, data)
	return s.send(b.Bytes())
}

func (s *eventStream) send(p []byte) error {
	_, err := s.w.Write(p)
	return err
}
