// Package clock compares this machine's clock with what peers say of theirs.
//
// Only peers that this node dialled are asked, by their HELLO, and those of one IP
// group have one voice: strangers who dial in cannot move the clock, and neither
// can many identities of one network. A configured seed has a voice of its own, and
// so has each peer with a private address, as in a testnet.
//
// The clock is wrong when it is more than [Limit] from the median of the voices. It
// takes [Quorum] voices to say so, or the configured seeds where they are fewer. Of
// two voices in the middle the one that is nearer to this machine's clock counts.
package clock

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ipgroup"
	"allium/protocols/session"
)

// The rules of the comparison.
const (
	Limit  = 2 * time.Minute // by which the clock may be off
	Quorum = 3               // voices that decide

	maxVoices   = 32               // kept; the oldest makes room
	voiceLife   = 24 * time.Hour   // after which a voice is forgotten
	askedEvery  = 10 * time.Minute // a peer of each group
	lookEvery   = 10 * time.Second // for groups that were not asked, and for jumps of the clock
	askTimeout  = 10 * time.Second
	jump        = 30 * time.Second // by which the clock may move at once before all are asked anew
	unknownLife = 10 * time.Minute // after which a node that nobody tells the time trusts its clock
)

// Deps is what a [Watch] works with.
type Deps struct {
	// Conns lists the connections of this node.
	Conns func() []network.Conn
	// Ask returns what a peer said of its clock in HELLO; false: nothing.
	Ask func(ctx context.Context, p peer.ID) (session.Clock, bool, error)
	// Seeds lists the seeds that the operator configured.
	Seeds []peer.ID
	Now   func() time.Time // the clock that is judged

	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
}

// Watch judges the clock. Its methods are safe for concurrent use.
type Watch struct {
	deps   Deps
	offset prometheus.Gauge
	voices prometheus.Gauge

	mu    sync.Mutex
	heard map[string]voice // by who speaks
	since time.Time        // of the start, or the latest jump of the clock
}

// voice is the last that was heard of one group.
type voice struct {
	session.Clock
	seed  bool
	local bool // its address is private, and it is no seed
}

// State is what the voices say.
type State struct {
	Offset time.Duration // of this machine's clock, ahead if positive
	Voices int           // groups heard
	Need   int           // groups that decide
	Known  bool          // enough were heard
}

// Wrong reports whether the clock is known to be off by more than Limit.
func (s State) Wrong() bool { return s.Known && s.Offset.Abs() > Limit }

// New returns a watch that runs nothing yet.
func New(deps Deps) *Watch {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watch{
		deps: deps, since: time.Now(), heard: map[string]voice{},
		offset: prometheus.NewGauge(prometheus.GaugeOpts{Name: "clock_offset_seconds", Help: "By how much this machine's clock is ahead of the median of what the peers say that this node dialled; 0 while too few have said."}),
		voices: prometheus.NewGauge(prometheus.GaugeOpts{Name: "clock_voices", Help: "Groups of peers whose clocks this machine's is compared with."}),
	}
	if deps.Metrics != nil {
		deps.Metrics.MustRegister(w.offset, w.voices)
	}
	return w
}

// State returns what the voices say now.
func (w *Watch) State() State {
	now := w.deps.Now().Round(0) // by the clock alone: it may have been set
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{Need: Quorum}
	locals, seeds := w.count()
	public := len(w.heard)-locals-seeds >= Quorum
	var offsets []time.Duration
	for _, v := range w.heard {
		if v.local && public {
			continue
		}
		offsets = append(offsets, now.Sub(v.Then.Add(time.Since(v.At)).Round(0)))
	}
	s.Voices = len(offsets)
	if few := min(Quorum, len(w.deps.Seeds)); few > 0 && seeds >= few {
		s.Need = min(Quorum, few)
	}
	if s.Known = s.Voices >= s.Need; s.Known {
		s.Offset = median(offsets)
	}
	return s
}

// count returns how many voices have private addresses, and how many are seeds'.
// The caller holds w.mu.
func (w *Watch) count() (locals, seeds int) {
	for _, v := range w.heard {
		switch {
		case v.seed:
			seeds++
		case v.local:
			locals++
		}
	}
	return locals, seeds
}

// median of one or more offsets; of the two in the middle the smaller one.
func median(offsets []time.Duration) time.Duration {
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	if low.Abs() < high.Abs() {
		return low
	}
	return high
}

// Wrong reports whether the clock is known to be wrong: then nothing is signed.
func (w *Watch) Wrong() bool { return w.State().Wrong() }

// MayExpire reports whether what has expired by the clock may be deleted: when
// the clock is known to be right, or nobody told the time for ten minutes since
// the start and since it was set.
func (w *Watch) MayExpire() bool {
	s := w.State()
	return !s.Wrong() && (s.Known || time.Since(w.steadySince()) >= unknownLife)
}

// steadySince is when the clock jumped last, or the start.
func (w *Watch) steadySince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// Run asks peers until ctx ends.
func (w *Watch) Run(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	wasWrong := false
	last, shown := time.Now(), w.deps.Now().Round(0)
	for {
		now, shows := time.Now(), w.deps.Now().Round(0)
		moved := shows.Sub(shown) - now.Sub(last)
		if last, shown = now, shows; moved.Abs() > jump { // it was set, or the machine slept
			w.forget()
		}
		w.ask(ctx)
		s := w.State()
		w.offset.Set(s.Offset.Seconds())
		w.voices.Set(float64(s.Voices))
		if wrong := s.Wrong(); wrong != wasWrong {
			wasWrong = wrong
			if wrong {
				w.deps.Log.Error("this machine's clock is wrong: nothing is announced, and nothing deleted for its age, until it is set", "ahead", s.Offset.Round(time.Second), "voices", s.Voices)
			} else {
				w.deps.Log.Info("this machine's clock agrees with its peers again", "ahead", s.Offset.Round(time.Millisecond))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// forget drops all voices, as the clock has jumped.
func (w *Watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.heard)
	w.since = time.Now()
}

// ask asks a peer of each group that is due.
func (w *Watch) ask(ctx context.Context) {
	var asking sync.WaitGroup
	for name, who := range w.due() {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			c, said, err := w.deps.Ask(ctx, who.id)
			if err != nil || !said {
				w.deps.Log.Debug("a peer did not say what its clock shows", "peer", who.id, "err", err)
				return
			}
			w.hear(name, voice{c, who.seed, who.local})
		})
	}
	asking.Wait()
}

// candidate is a peer that may speak.
type candidate struct {
	id          peer.ID
	seed, local bool // as of voice
}

// due returns a peer of each group that was not asked lately, at most maxVoices.
// What a session said that was open before the clock jumped is asked again, as it
// does not tell for how long the machine slept.
func (w *Watch) due() map[string]candidate {
	groups := map[string][]candidate{}
	for _, c := range w.deps.Conns() {
		if stat := c.Stat(); stat.Direction != network.DirOutbound || stat.Limited {
			continue
		}
		id := c.RemotePeer()
		name, seed := ipgroup.Key(c.RemoteMultiaddr(), id), slices.Contains(w.deps.Seeds, id)
		if seed {
			name = "seed " + string(id)
		}
		local := !seed && ipgroup.Of(c.RemoteMultiaddr()) == ""
		groups[name] = append(groups[name], candidate{id, seed, local})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	due := map[string]candidate{}
	for name, v := range w.heard {
		if time.Since(v.At) > voiceLife {
			delete(w.heard, name)
		}
	}
	for name, peers := range groups {
		if v, heard := w.heard[name]; len(due) < maxVoices && (!heard || time.Since(v.At) >= askedEvery || v.At.Before(w.since)) {
			due[name] = peers[rand.IntN(len(peers))]
		}
	}
	return due
}

// hear keeps what was said. When there is no room, the oldest voice is forgotten:
// one with a private address first, a seed's never.
func (w *Watch) hear(name string, v voice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.heard[name]; !again && len(w.heard) >= maxVoices {
		locals, _ := w.count()
		if locals == 0 && v.local {
			return
		}
		oldest := ""
		for n, o := range w.heard {
			if !o.seed && (o.local || locals == 0) && (oldest == "" || o.At.Before(w.heard[oldest].At)) {
				oldest = n
			}
		}
		if oldest == "" { // seeds alone
			return
		}
		delete(w.heard, oldest)
	}
	w.heard[name] = v
}
