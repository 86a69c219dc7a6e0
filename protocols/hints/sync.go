package hints

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/guard"
	"allium/internal/ipgroup"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/delimited"
	"allium/protocols/status"
)

const (
	syncTimeout = 10 * time.Second // of a whole comparison
	stepTimeout = 5 * time.Second  // of one read or write in it
	syncTries   = 3                // peers asked, one after the other, until one compares
	askers      = 4096             // peers whose request rate, and whose last comparison, is remembered
	declines    = 8192             // announcements remembered as not wanted
	declineLate = 5 * time.Minute  // how long a late announcement is not asked for; a clock may be corrected
	arrivalGap  = 4                // shortest interval between comparisons for new peers, times SyncSoon
)

// syncer compares this node's announcements with those of peers. It asks one peer at a time, and
// serves requests.
type syncer struct {
	s     *Service
	gate  *limits.Gate
	rates *limits.KeyedRate[string] // by origin, so that a new identity gets no new bucket

	wake     chan struct{} // a new announcement came by gossip or from this node
	differed chan struct{} // a comparison that was served found a difference

	arrived chan struct{} // a peer that compares was connected

	// declined holds announcements that are not asked for: late ones until the given time, and, with
	// a zero time, those without a place until there is space.
	declined *lru.Cache[id, time.Time]

	rounds int                            // used only by run, like last
	last   *lru.Cache[peer.ID, time.Time] // when a peer was asked

	streams latch.Latch // streams being served; closed unless serve was called
}

func newSyncer(s *Service) (*syncer, error) {
	const path = "peers → comparisons of announcements"
	y := &syncer{
		s: s, wake: make(chan struct{}, 1), differed: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		gate: s.deps.Limits.NewGate(
			limits.Spec{Name: "announce.sync", Path: path, Policy: "reject busy"},
			int64(s.cfg.SyncServed),
			0,
		),
		rates: limits.NewKeyedRate[string](
			s.deps.Limits,
			limits.Spec{Name: "announce.sync_peer_rate", Path: path, Policy: "reject rate_limit", Each: "peer"},
			float64(s.cfg.SyncPeerRate),
			4*s.cfg.SyncPeerRate,
			askers,
		),
	}
	y.streams.Close()
	var err error
	if y.last, err = lru.New[peer.ID, time.Time](askers); err != nil {
		return nil, err
	}
	y.declined, err = lru.New[id, time.Time](declines)
	return y, err
}

// poke signals a new announcement.
func (y *syncer) poke() { signal(y.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// with compares with p, which is connected, and reports whether they differed.
func (y *syncer) with(ctx context.Context, p peer.ID) (differ bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	s, err := y.s.deps.Host.NewStream(network.WithNoDial(ctx, "comparison of announcements"), p, SyncID)
	if err != nil {
		return false, delimited.Failure(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if differ, err = y.ask(stepped{s}, ipgroup.Key(s.Conn().RemoteMultiaddr(), p)); err != nil {
		_ = s.Reset()
		return false, delimited.Failure(ctx, err)
	}
	_ = s.Close()
	return differ, nil
}

// stepped is a stream with a deadline for each read and write.
type stepped struct{ network.Stream }

func (s stepped) Read(p []byte) (int, error) {
	_ = s.SetReadDeadline(time.Now().Add(stepTimeout)) // fails only if the stream has ended
	return s.Stream.Read(p)
}

func (s stepped) Write(p []byte) (int, error) {
	_ = s.SetWriteDeadline(time.Now().Add(stepTimeout))
	return s.Stream.Write(p)
}

// ask runs the requesting side of a comparison. origin is what received announcements count for.
// differ reports whether either side wanted an announcement of the other.
func (y *syncer) ask(rw io.ReadWriter, origin string) (differ bool, err error) {
	c := y.conversation(rw, origin)
	mine := newDigest(rand.Uint64(), y.s.memory.live(y.s.deps.Now()))
	if err := c.write(mine.offer()); err != nil {
		return false, err
	}
	p, err := c.read()
	if err != nil {
		return false, err
	}
	a, err := decodeAnswer(p)
	if err != nil || a.equal() {
		return false, err
	}
	lacks, extra, err := mine.compare(a)
	if err != nil {
		return false, err
	}
	wants := y.wants(lacks)
	first := batch{Last: true, Wants: joinIDs(wants), Has: joinIDs(extra[:min(len(extra), maxIDs)])}
	if err := c.write(first); err != nil {
		return false, err
	}
	theirs, err := c.receive(wants)
	if err == nil && len(theirs.Wants) > 0 {
		err = c.send(nil, splitIDs(theirs.Wants))
	}
	return c.moved > 0, err
}

// wants returns the IDs to ask for among those that this side lacks.
func (y *syncer) wants(lacks []id) []id {
	var wants []id
	now := time.Now()
	for _, i := range lacks {
		if until, ok := y.declined.Get(i); ok && (until.IsZero() || now.Before(until)) {
			continue
		}
		if len(wants) < maxWants {
			wants = append(wants, i)
		}
	}
	return wants
}

// reconsider forgets the announcements that were declined for lack of space.
func (y *syncer) reconsider() {
	for _, i := range y.declined.Keys() {
		if until, ok := y.declined.Peek(i); ok && until.IsZero() {
			y.declined.Remove(i)
		}
	}
}

// answer runs the serving side of a comparison that a peer of origin requested.
func (y *syncer) answer(origin string, rw io.ReadWriter) error {
	c := y.conversation(rw, origin)
	p, err := c.read()
	if err != nil {
		return err
	}
	o, err := decodeOffer(p)
	if err != nil {
		return err
	}
	release, err := y.admit(origin)
	if err != nil {
		return errors.Join(err, c.write(refusal(err)))
	}
	defer release()
	a := newDigest(o.Salt, y.s.memory.live(y.s.deps.Now())).answer(o, rand.IntN(buckets))
	if err := c.write(a); err != nil || a.equal() {
		return err
	}
	theirs, err := c.receive(nil)
	if err != nil {
		return err
	}
	wants := y.wants(y.s.memory.lacks(splitIDs(theirs.Has)))
	err = c.send(wants, splitIDs(theirs.Wants))
	if err == nil && len(wants) > 0 {
		_, err = c.receive(wants)
	}
	if c.moved > 0 {
		signal(y.differed)
	}
	return err
}

// admit admits a comparison that a peer of origin requested. It returns status.RateLimit or Busy.
func (y *syncer) admit(from string) (release func(), err error) {
	if err := y.rates.Of(from).Allow(); err != nil {
		return nil, err
	}
	return y.gate.TryAcquire()
}

// serve serves comparisons until the returned function is called. Call it after ctx has ended.
func (y *syncer) serve(ctx context.Context) (end func()) {
	y.streams.Open()
	h := y.s.deps.Host
	h.SetStreamHandler(SyncID, func(s network.Stream) { y.handle(ctx, s) })
	return func() {
		h.RemoveStreamHandler(SyncID)
		y.streams.CloseAndWait()
	}
}

// handle is the stream handler.
func (y *syncer) handle(ctx context.Context, s network.Stream) {
	if !y.streams.Enter() {
		_ = s.ResetWithError(network.StreamShutdown)
		return
	}
	defer y.streams.Leave()
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	start := time.Now()
	err := guard.Guard{Log: y.s.log}.Run("a comparison of announcements panicked", func() error {
		return y.answer(ipgroup.Key(s.Conn().RemoteMultiaddr(), s.Conn().RemotePeer()), stepped{s})
	}, nil)
	if err != nil {
		err = delimited.Failure(ctx, err)
	}
	y.s.m.synced(sideServed, start, err)
	switch status.Of(err) {
	case status.OK, status.Busy, status.RateLimit: // the peer has been told
		_ = s.Close()
	default:
		y.s.log.Log(ctx, slog.LevelDebug, "a requested comparison of announcements failed",
			"peer", s.Conn().RemotePeer(), "err", err)
		_ = s.Reset()
	}
}
