// Package clock compares this machine's clock with the clocks of peers, to find out
// whether it is wrong.
//
// Only peers that this node dialled count, by the time in their HELLO, and the peers of one IP group have one voice
// together. So peers that dial in cannot influence the result, and neither can many identities in one network. A
// configured seed has its own voice, and so has each peer with a private address, as in a testnet.
//
// The clock is wrong if it is more than [Limit] from the median of the voices. At least
// [Quorum] voices are needed, or all configured seeds if those are fewer. If two voices
// are in the middle, the one nearer to this machine's clock is the median.
//
// One comparison, walked through: [Watch.Run] looks every 10 s for groups that are due,
// asks one peer of each, and records its voice (hear). It computes [Watch.State], sets
// the metrics and logs a change. If this machine's clock jumps, Run forgets all voices
// and asks again. The DHT calls [Watch.Wrong] before it signs a record, and the store
// calls [Watch.MayExpire] before it deletes one that has expired.
package clock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/protocols/session"
)

// The rules of the comparison.
const (
	Limit  = 2 * time.Minute // the most by which the clock may be off
	Quorum = 3               // the voices needed for a result

	maxVoices  = 32               // bound of voices; a new one replaces the oldest
	voiceLife  = 24 * time.Hour   // how long a voice counts
	askEvery   = 10 * time.Minute // time between two questions to one group
	lookEvery  = 10 * time.Second // time between two looks for groups that are due, and for jumps of the clock
	askTimeout = 10 * time.Second
	maxJump    = 30 * time.Second // a jump of the clock beyond this makes all voices void
	trustAfter = 10 * time.Minute // a node without enough voices for so long trusts its clock
)

// Deps holds the dependencies of a [Watch].
type Deps struct {
	env.Env

	// Conns lists the connections of this node.
	Conns func() []network.Conn
	// Ask returns the time in a peer's HELLO; false if there was none.
	Ask func(ctx context.Context, p peer.ID) (session.Clock, bool, error)
	// Seeds lists the seeds that the operator configured.
	Seeds []peer.ID
}

// Watch checks the clock. Its methods are safe for concurrent use.
type Watch struct {
	deps   Deps
	offset prometheus.Gauge
	voices prometheus.Gauge

	mu    sync.Mutex       // lock: leaf
	heard map[string]voice // by the name of the group
	since time.Time        // the start, or the latest jump of the clock
}

// voice is the latest answer of one group.
type voice struct {
	session.Clock
	seed  bool
	local bool // its address is private, and it is no seed
}

// State is the result of a comparison.
type State struct {
	Offset time.Duration // by how much this machine's clock is ahead of the median
	Voices int           // voices that count
	Need   int           // voices that are needed
	Known  bool          // there are enough voices, so Offset is valid
}

// Wrong reports whether the clock is known to be off by more than Limit.
func (s State) Wrong() bool { return s.Known && s.Offset.Abs() > Limit }

// New returns a watch. It starts nothing.
func New(deps Deps) *Watch {
	deps.Env.SetDefaults()
	w := &Watch{
		deps: deps, since: time.Now(), heard: map[string]voice{},
		offset: env.Gauge("clock_offset_seconds",
			"How many seconds this machine's clock is ahead of the median of the clocks of peers that it dialled; "+
				"0 while too few of them are known."),
		voices: env.Gauge("clock_voices", "Groups of peers with whose clocks this machine's clock is compared."),
	}
	env.MustRegister(deps.Metrics, w.offset, w.voices)
	return w
}

// State compares the clock with the voices now.
func (w *Watch) State() State {
	now := w.deps.Now().Round(0) // without the monotonic reading, as the clock may have been set
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
		offsets = append(offsets, now.Sub(v.PeerTime.Add(time.Since(v.ReceivedAt)).Round(0)))
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

// median returns the median of one or more offsets. If two are in the middle, it returns the one nearer to 0.
func median(offsets []time.Duration) time.Duration {
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	if low.Abs() < high.Abs() {
		return low
	}
	return high
}

// Wrong reports whether the clock is known to be wrong. While it is, nothing is signed.
func (w *Watch) Wrong() bool { return w.State().Wrong() }

// MayExpire reports whether records that have expired by the clock may be deleted: if
// the clock is known to be right, or if it is not known to be wrong ten minutes after
// the start and after its latest jump.
func (w *Watch) MayExpire() bool {
	s := w.State()
	return !s.Wrong() && (s.Known || time.Since(w.steadySince()) >= trustAfter)
}

// steadySince returns when the clock jumped last, or the start.
func (w *Watch) steadySince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// Run compares the clock with that of peers until ctx ends.
func (w *Watch) Run(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	wasWrong := false
	last, shown := time.Now(), w.deps.Now().Round(0)
	for {
		now, shows := time.Now(), w.deps.Now().Round(0)
		moved := shows.Sub(shown) - now.Sub(last)
		if last, shown = now, shows; moved.Abs() > maxJump { // the clock was set, or the machine slept
			w.forget()
		}
		w.ask(ctx)
		s := w.State()
		w.offset.Set(s.Offset.Seconds())
		w.voices.Set(float64(s.Voices))
		if wrong := s.Wrong(); wrong != wasWrong {
			wasWrong = wrong
			if wrong {
				w.deps.Log.Error("this machine's clock is wrong: until it is set, nothing is announced, "+
					"and nothing is deleted because of its age", "ahead",
					s.Offset.Round(time.Second), "voices", s.Voices)
			} else {
				w.deps.Log.Info("this machine's clock agrees with its peers again", "ahead",
					s.Offset.Round(time.Millisecond))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// forget drops all voices after a jump of the clock.
func (w *Watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.heard)
	w.since = time.Now()
}

// ask asks a peer of each group that is due, all at the same time.
func (w *Watch) ask(ctx context.Context) {
	var asking sync.WaitGroup
	for name, p := range w.due() {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			c, ok, err := w.deps.Ask(ctx, p.id)
			if err != nil || !ok {
				w.deps.Log.Debug("a peer did not tell its time", "peer", p.id, "err", err)
				return
			}
			w.hear(name, voice{c, p.seed, p.local})
		})
	}
	asking.Wait()
}

// candidate is a peer that may be asked for its group.
type candidate struct {
	id          peer.ID
	seed, local bool // as in voice
}

// due returns a random peer of each group that was not asked within askEvery, at most
// maxVoices. A group is also due if the answer is older than the latest jump of the
// clock: it does not tell how long the machine slept.
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
		if time.Since(v.ReceivedAt) > voiceLife {
			delete(w.heard, name)
		}
	}
	for name, peers := range groups {
		if v, heard := w.heard[name]; len(due) < maxVoices &&
			(!heard || time.Since(v.ReceivedAt) >= askEvery || v.ReceivedAt.Before(w.since)) {
			due[name] = peers[rand.IntN(len(peers))]
		}
	}
	return due
}

// hear records a voice. If there are maxVoices, it drops the oldest one: a local voice
// if there is one, else one of a public address, never a seed's. A local voice never
// replaces others.
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
			if !o.seed && (o.local || locals == 0) &&
				(oldest == "" || o.ReceivedAt.Before(w.heard[oldest].ReceivedAt)) {
				oldest = n
			}
		}
		if oldest == "" { // all voices are seeds'
			return
		}
		delete(w.heard, oldest)
	}
	w.heard[name] = v
}
