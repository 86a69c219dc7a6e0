package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// The states of a session. A service that answers knows the first table's, one
// that asks the second's.
//
//	opening     our dial is under way, there is no stream yet
//	greeting    there is a stream; not both HELLOs were seen
//	open        both were; nothing is in flight
//	busy        a request is in flight
//	going away  the peer said GOAWAY, and a request of ours is in flight
//	draining    this node drains: what is in flight is finished
//	closing     the peer ended its side and is owed an answer
//	ended       the stream is closed or reset, nothing of the session is left

// A cell is the state that follows, then what happens: what the peer is sent
// (HELLO, GOAWAY, ACK, asked for a request, the code of an answer), how its
// stream ends (closed, reset, shutdown or the reason of OAP1 §3), call= and the
// outcome of our call in flight, and again when that call is asked once more
// over a new session. "cannot" is what a peer cannot do in that state.

const acceptorStates = `
event    | greeting             | open              | busy                | draining            | closing        | ended
HELLO    | open HELLO           | ended bad_hello   | ended bad_hello     | ended bad_hello     | cannot         | cannot
answerer | ended bad_hello      | ended bad_hello   | ended bad_hello     | ended bad_hello     | cannot         | cannot
request  | ended bad_hello      | busy              | busy                | draining 503        | cannot         | cannot
again    | ended bad_hello      | busy              | busy 400            | draining 400        | cannot         | cannot
PING     | ended bad_hello      | open 200          | busy 200            | draining 200        | cannot         | cannot
answer   | ended bad_hello      | open              | busy                | draining            | cannot         | cannot
ACK      | ended bad_hello      | ended credit_violation | busy           | draining            | cannot         | cannot
event    | ended bad_hello      | open              | busy                | draining            | cannot         | cannot
GOAWAY   | ended bad_hello      | open              | busy                | draining            | cannot         | cannot
garbage  | ended frame_undersize | ended frame_undersize | ended frame_undersize | ended frame_undersize | cannot   | cannot
half     | ended reset          | ended reset       | ended reset         | ended reset         | cannot         | cannot
EOF      | ended closed         | ended closed      | closing             | closing             | closing        | ended
cut      | ended truncated      | ended truncated   | ended truncated     | ended truncated     | cannot         | cannot
reset    | ended                | ended             | ended               | ended               | ended          | ended
answered | cannot               | cannot            | open 504            | draining 504        | ended 504 closed | cannot
idle     | ended reset          | ended closed      | ended 504 closed    | ended 504 closed    | ended 504 closed | ended
drain    | greeting             | draining GOAWAY   | draining GOAWAY     | draining GOAWAY     | closing        | ended
stop     | ended shutdown       | ended closed      | ended shutdown      | ended shutdown      | ended shutdown | ended
`

const openerStates = `
event    | opening | greeting | open | busy | going away | draining | ended
HELLO    | cannot | busy asked | ended bad_hello | ended bad_hello call=bad_frame | ended bad_hello call=bad_frame | ended bad_hello call=bad_frame | cannot
answerer | cannot | ended bad_hello call=bad_frame | ended bad_hello | ended bad_hello call=bad_frame | ended bad_hello call=bad_frame | ended bad_hello call=bad_frame | cannot
refusal  | cannot | ended reset call=not_allowed | ended bad_hello | ended bad_hello call=bad_frame | ended bad_hello call=bad_frame | ended bad_hello call=bad_frame | cannot
request  | cannot | ended bad_hello call=bad_frame | open 400 | busy 400 | going away 400 | draining 400 | cannot
PING     | cannot | ended bad_hello call=bad_frame | open 400 | busy 400 | going away 400 | draining 400 | cannot
answer   | cannot | ended bad_hello call=bad_frame | open | open call=ok | ended closed call=ok | draining call=ok | cannot
stray    | cannot | ended bad_hello call=bad_frame | open | busy | going away | draining | cannot
ACK      | cannot | ended bad_hello call=bad_frame | ended credit_violation | busy | going away | draining | cannot
event    | cannot | ended bad_hello call=bad_frame | open | busy | going away | draining | cannot
GOAWAY   | cannot | ended bad_hello call=bad_frame | ended closed | going away | going away | draining | cannot
garbage  | cannot | ended frame_undersize call=bad_frame | ended frame_undersize | ended frame_undersize call=bad_frame | ended frame_undersize call=bad_frame | ended frame_undersize call=bad_frame | cannot
half     | cannot | ended reset call=timeout | ended reset | ended reset call=timeout | ended reset call=timeout | ended reset call=timeout | cannot
EOF      | cannot | ended reset call=transport_down | ended closed | ended closed again | ended closed again | ended closed call=draining | ended
cut      | cannot | ended truncated call=bad_frame | ended truncated | ended truncated call=bad_frame | ended truncated call=bad_frame | ended truncated call=bad_frame | cannot
reset    | ended call=transport_down | ended call=transport_down | ended | ended call=transport_down | ended call=transport_down | ended call=transport_down | ended
give up  | ended call=canceled | greeting call=canceled | cannot | busy call=canceled | going away call=canceled | draining call=canceled | cannot
idle     | ended call=timeout | ended reset call=timeout | ended closed | ended reset call=timeout | ended reset call=timeout | ended reset call=timeout | ended
drain    | opening | greeting | draining GOAWAY | draining GOAWAY | draining GOAWAY | draining GOAWAY | ended
stop     | ended call=draining | ended shutdown call=draining | ended closed | ended shutdown call=draining | ended shutdown call=draining | ended shutdown call=draining | ended
`

// table reads one of the tables above; a cell that is missing fails the test.
func table(t *testing.T, text string, states, events []string) map[[2]string]string {
	t.Helper()
	cells := map[[2]string]string{}
	rows := strings.Split(strings.TrimSpace(text), "\n")
	fields := func(row string) []string {
		all := strings.Split(row, "|")
		for i := range all {
			all[i] = strings.TrimSpace(all[i])
		}
		return all
	}
	head := fields(rows[0])
	for _, row := range rows[1:] {
		f := fields(row)
		if len(f) != len(head) {
			t.Fatalf("%d cells for %d columns: %s", len(f), len(head), row)
		}
		for i := 1; i < len(f); i++ {
			cells[[2]string{head[i], f[0]}] = f[i]
		}
	}
	for _, s := range states {
		for _, e := range events {
			if cells[[2]string{s, e}] == "" {
				t.Errorf("the table does not say what %q does in the state %q", e, s)
			}
		}
	}
	if len(cells) != len(states)*len(events) {
		t.Errorf("%d cells for %d states and %d events", len(cells), len(states), len(events))
	}
	return cells
}

// TestStates drives a service through every cell of both tables.
func TestStates(t *testing.T) {
	for _, side := range []struct {
		name, table string
		states      []string
		enter       func(m *machine, state string)
		events      map[string]func(m *machine)
		observe     func(m *machine) string
	}{
		{"acceptor", acceptorStates, []string{"greeting", "open", "busy", "draining", "closing", "ended"},
			(*machine).acceptorIn, acceptorEvents, (*machine).acceptorState},
		{"opener", openerStates, []string{"opening", "greeting", "open", "busy", "going away", "draining", "ended"},
			(*machine).openerIn, openerEvents, (*machine).openerState},
	} {
		var events []string
		for e := range side.events {
			events = append(events, e)
		}
		slices.Sort(events)
		cells := table(t, side.table, side.states, events)
		for _, state := range side.states {
			for _, event := range events {
				want := strings.Join(strings.Fields(cells[[2]string{state, event}]), " ")
				t.Run(side.name+" "+state+": "+event, func(t *testing.T) {
					bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
						m := newMachine(t, net)
						defer m.end()
						side.enter(m, state)
						synctest.Wait()
						if got := side.observe(m); got != state {
							t.Fatalf("the state is %q", got)
						}
						m.forget()
						side.events[event](m)
						synctest.Wait()
						got := m.happened()
						if m.cannot {
							got = []string{"cannot"}
						} else {
							got = append([]string{side.observe(m)}, got...)
						}
						if got := strings.Join(got, " "); got != want {
							t.Errorf("got %q, want %q", got, want)
						}
					})
				})
			}
		}
	}
}

// machine is a service in a state, and the peer across from it.
type machine struct {
	t      *testing.T
	net    *testkit.Network
	n      *node
	host   *dialHost
	peer   *testkit.Host
	in     <-chan *wire
	w      *wire // the stream under test; nil: there is none
	corr   uint64
	call   context.CancelFunc // ends our call, if there is one
	cannot bool               // the peer could not do it
	wg     sync.WaitGroup

	mu    sync.Mutex
	seen  []string
	ended bool
}

// dialHost is a host whose dials wait until they are let through.
type dialHost struct {
	*testkit.Host
	closed chan struct{} // dials wait while it is open; nil: they do not
	refuse error
}

func (h *dialHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	if h.closed != nil {
		select {
		case <-h.closed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if h.refuse != nil {
		return nil, h.refuse
	}
	return h.Host.NewStream(ctx, p, ids...)
}

func newMachine(t *testing.T, net *testkit.Network) *machine {
	m := &machine{t: t, net: net, host: &dialHost{Host: net.Host("a")}, peer: net.Host("b"), corr: 1}
	m.n = startOn(t, m.host, session.DefaultConfig(), abused)
	m.in = accepting(t, m.peer)
	return m
}

// end stops everything that is left and looks that nothing is.
func (m *machine) end() {
	if m.call != nil {
		m.call()
	}
	m.n.stop()
	m.net.Close()
	m.wg.Wait()
	for _, l := range m.n.limits.Snapshot() {
		if l.Current != 0 {
			m.t.Errorf("held at the end: %+v", l)
		}
	}
	if o, c := m.n.metric(m.t, "session_open_total"), m.n.metric(m.t, "session_close_total"); o != c {
		m.t.Errorf("%v sessions opened, %v closed", o, c)
	}
}

// note keeps what happened.
func (m *machine) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, what)
}

func (m *machine) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = nil
}

// happened is what was noted since forget, the call's outcome last.
func (m *machine) happened() []string {
	if len(m.in) > 0 {
		m.note("again")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := slices.Clone(m.seen)
	slices.SortStableFunc(seen, func(a, b string) int {
		rank := func(s string) int {
			if strings.HasPrefix(s, "call=") || s == "again" {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	return seen
}

// watch notes all that comes over a stream, and its end.
func (m *machine) watch(w *wire) {
	m.w = w
	m.wg.Go(func() {
		for {
			f, err := w.r.Next()
			if err != nil {
				if how := ending(err); how != "" {
					m.note(how)
				}
				m.mu.Lock()
				m.ended = true
				m.mu.Unlock()
				return
			}
			switch {
			case f.Flags.IsAck():
				m.note("ACK")
			case f.Flags.Has(oap.FlagReq) && strings.Contains(string(f.Payload), "probe"):
				_, _ = w.stream.Write(frame(oap.Header{Flags: asAnswer, Code: 200, Proto: f.Proto, CorrID: f.CorrID},
					"", `{}`))
			case f.Flags.Has(oap.FlagReq) && f.Proto != oap.ProtoControl:
				m.corr = f.CorrID // read after synctest.Wait only
				m.note("asked")
			case f.Flags.Has(oap.FlagEvent):
				m.note("GOAWAY")
			case f.Proto == oap.ProtoControl && f.CorrID == 0:
				m.note("HELLO")
			default:
				m.note(fmt.Sprint(f.Code))
			}
		}
	})
}

// ending names the end of a stream; "" is one that the peer itself made.
func ending(err error) string {
	var se *network.StreamError
	switch {
	case errors.Is(err, io.EOF):
		return "closed"
	case !errors.As(err, &se) || !se.Remote:
		return ""
	case se.ErrorCode == 0:
		return "reset"
	case se.ErrorCode == network.StreamShutdown:
		return "shutdown"
	}
	if r, ok := oap.ReasonOfStreamError(uint32(se.ErrorCode)); ok {
		return r.String()
	}
	return fmt.Sprintf("%#x", se.ErrorCode)
}

// says writes a frame as the peer.
func says(h oap.Header, payload string) func(*machine) {
	return func(m *machine) { m.write(frame(h, "", payload)) }
}

func (m *machine) write(p []byte) {
	if m.w == nil {
		m.cannot = true
		return
	}
	_, err := m.w.stream.Write(p)
	m.cannot = err != nil
}

// over reports whether the stream under test has ended, for both sides.
func (m *machine) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

const asAnswer = oap.FlagResp | oap.FlagEnd

// either are the events that are the same for both sides.
func either(own map[string]func(*machine)) map[string]func(*machine) {
	for name, f := range map[string]func(*machine){
		"PING":    says(oap.Header{Flags: whole, CorrID: 7}, "ping"),
		"event":   says(oap.Header{Flags: oap.FlagEvent, Proto: oap.ProtoGossip}, "news"),
		"GOAWAY":  says(oap.Header{Flags: oap.FlagEvent}, `{"drain_ms":3000}`),
		"garbage": func(m *machine) { m.write(make([]byte, 38)) },
		"half": func(m *machine) {
			m.write(frame(oap.Header{Flags: whole}, "", `{}`)[:20])
			if !m.cannot {
				time.Sleep(5100 * time.Millisecond)
			}
		},
		"cut": func(m *machine) {
			m.write(frame(oap.Header{Flags: whole}, "", `{}`)[:20])
			if !m.cannot {
				_ = m.w.stream.CloseWrite()
			}
		},
		"EOF": func(m *machine) {
			if m.cannot = m.w == nil; !m.cannot {
				_ = m.w.stream.CloseWrite()
			}
		},
		"reset": func(m *machine) {
			if m.w != nil {
				_ = m.w.stream.ResetWithError(0x77)
				return
			}
			m.host.refuse = errors.New("nobody there")
			close(m.host.closed)
		},
		"idle": func(*machine) { time.Sleep(41 * time.Second) },
		"drain": func(m *machine) {
			ctx, cancel := context.WithCancel(m.t.Context())
			cancel()
			m.n.Drain(ctx, 3*time.Second)
		},
		"stop": func(m *machine) { m.n.stop() },
	} {
		own[name] = f
	}
	return own
}

var acceptorEvents = either(map[string]func(*machine){
	"HELLO":    says(oap.Header{Flags: whole}, `{}`),
	"answerer": says(oap.Header{Flags: asAnswer, Code: 200}, `{}`),
	"request":  says(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 9}, `{"op":"x"}`),
	"again":    says(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x"}`),
	"answer":   says(oap.Header{Flags: asAnswer, Code: 200, Proto: oap.ProtoIndex, CorrID: 1}, `{}`),
	"ACK": says(oap.Header{Flags: oap.FlagEvent | oap.FlagResp, Proto: oap.ProtoRepair, CorrID: 1},
		string(make([]byte, 8))),
	"answered": func(m *machine) {
		m.cannot = m.over() || len(m.n.Sessions()) == 0 || m.n.Sessions()[0].Inflight == 0
		time.Sleep(9 * time.Second) // of the 10 that a handler has, one has passed
	},
})

// acceptorIn brings a new session, opened by the peer, to a state.
func (m *machine) acceptorIn(state string) {
	m.watch(newWire(m.t, dial(m.t, m.peer, "a").stream))
	if state == "greeting" {
		return
	}
	acceptorEvents["HELLO"](m)
	synctest.Wait()
	if state != "open" && state != "ended" {
		acceptorEvents["again"](m) // corr_id 1
		time.Sleep(time.Second)
	}
	switch state {
	case "draining":
		acceptorEvents["drain"](m)
	case "closing":
		acceptorEvents["EOF"](m)
	case "ended":
		acceptorEvents["reset"](m)
	}
}

// acceptorState tells the state of the session that the peer opened.
func (m *machine) acceptorState() string {
	if m.over() {
		return "ended"
	}
	s := m.n.Sessions()
	if len(s) == 0 {
		return "greeting"
	}
	_, err := m.w.stream.Write(nil)
	switch {
	case err != nil:
		return "closing"
	case m.refuses():
		return "draining"
	case s[0].Inflight > 0:
		return "busy"
	}
	return "open"
}

// refuses reports whether the node takes no new session.
func (m *machine) refuses() bool {
	w := dial(m.t, m.net.Host("probe"), "a")
	synctest.Wait()
	refused := w.stream.Err() != nil
	_ = w.stream.Reset()
	synctest.Wait()
	return refused
}

var openerEvents = either(map[string]func(*machine){
	"HELLO":    func(m *machine) { m.write(frame(oap.Header{Flags: asAnswer, Code: 200}, "", acceptorsHello)) },
	"answerer": says(oap.Header{Flags: whole}, `{}`),
	"refusal":  says(oap.Header{Flags: asAnswer, Code: 403}, `{"reason":"not_allowed","message":"private"}`),
	"request":  says(oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: 9}, `{"op":"x"}`),
	"answer": func(m *machine) {
		says(oap.Header{Flags: asAnswer, Code: 200, Proto: oap.ProtoIndex, CorrID: m.corr}, `{}`)(m)
	},
	"stray": says(oap.Header{Flags: asAnswer, Code: 200, Proto: oap.ProtoIndex, CorrID: 99}, `{}`),
	"ACK": func(m *machine) {
		says(oap.Header{Flags: oap.FlagEvent | oap.FlagResp, Proto: oap.ProtoIndex, CorrID: m.corr},
			"\x00\x00\x00\x00\x00\x00\x00\x01")(m)
	},
	"give up": func(m *machine) {
		m.cannot = m.call == nil
		if !m.cannot {
			m.call()
		}
	},
})

const acceptorsHello = `{"max_frame":1048576,"max_inflight":32,"credit_window":64,` +
	`"flags_supported":255,"versions":[1],"transports":[]}`

// openerIn brings a session that the service opens to a state.
func (m *machine) openerIn(state string) {
	if state == "opening" {
		m.host.closed = make(chan struct{})
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	m.call = cancel
	m.wg.Go(func() {
		_, err := m.n.Call(ctx, "b", oap.ProtoIndex, []byte(`{"op":"x"}`))
		m.note("call=" + status.Of(err).String())
	})
	if state == "opening" {
		return
	}
	m.watch(<-m.in)
	synctest.Wait()
	if state == "greeting" {
		return
	}
	openerEvents["HELLO"](m)
	synctest.Wait()
	switch state {
	case "open":
		openerEvents["answer"](m)
		synctest.Wait()
		m.call = nil
	case "going away":
		openerEvents["GOAWAY"](m)
	case "draining":
		openerEvents["drain"](m)
	case "ended":
		openerEvents["reset"](m)
		synctest.Wait()
		m.call = nil
	}
}

// openerState tells the state of the session that the service opened.
func (m *machine) openerState() string {
	s := m.n.Sessions()
	switch {
	case m.over():
		return "ended"
	case m.w == nil && m.noted("call="):
		return "ended" // before there was a stream
	case m.w == nil:
		return "opening"
	case len(s) == 0:
		return "greeting"
	case m.refuses():
		return "draining"
	}
	if s[0].Inflight == 0 {
		return "open" // one that is going away would have ended
	}
	// A call tells the rest; the peer answers it.
	if _, err := m.n.Call(m.t.Context(), "b", oap.ProtoIndex,
		[]byte(`{"op":"probe"}`)); status.Of(err) == status.Draining {
		return "going away"
	}
	return "busy"
}

func (m *machine) noted(prefix string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.seen, func(s string) bool { return strings.HasPrefix(s, prefix) })
}
