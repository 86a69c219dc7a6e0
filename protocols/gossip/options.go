package gossip

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

const (
	// envelope is the room for topic, author, signature and framing around the
	// data of a message. RSA keys, which travel with the message, fit.
	envelope = 4 << 10
	// maxControl bounds subscriptions and gossipsub's own control messages in one
	// frame, in bytes.
	maxControl = 64 << 10
	// maxIHave is the most message ids one advertisement has.
	maxIHave = 1024
	// maxSubscriptions is the most topics one frame may subscribe to.
	maxSubscriptions = 64
	// seenTTL is how long a message is remembered as seen; its cache sweeps every
	// minute. At the default total_rate that is at most 250,000 ids.
	seenTTL = time.Minute
	// heartbeat is how often the mesh is mended and messages are advertised to
	// peers outside of it.
	heartbeat = time.Second
)

// Scores (gossipsub v1.1). Weights are such that three or four refused messages
// within minutes take a peer out of the mesh and from gossip, and then make what
// it sends be dropped unread.
const (
	gossipScore   = -10 // below: no gossip to or from the peer
	publishScore  = -50 // below: own messages are not sent to it
	graylistScore = -75 // below: nothing it sends is read
	noExchange    = 1e9 // no peer gets there: peers are found by the DHT alone

	// Times the square of the refused messages, by pubsub's count and by our own:
	// pubsub's knows who brought the same lie a moment later, ours knows peers to
	// which pubsub has no stream, and what it was never shown.
	invalidWeight = -2.5
	// Nothing a peer sends is read while more offences than these are not
	// forgotten: the fourth is the last.
	tolerated = 3.5

	behaviourWeight  = -5 // times the square of broken promises and floods of grafts …
	behaviourFree    = 10 // … beyond these, which an overloaded honest node may reach
	colocationWeight = -2 // times the square of the peers at one address …
	colocationFree   = 4  // … beyond these

	scoreInterval = time.Second
	scoreToZero   = 0.01
	scoreRetain   = 10 * time.Minute // a graylisted peer that comes back is known this long
)

// local are the addresses that many nodes may share: loopback, private networks
// and those of carrier NAT. None of them says anything of who is behind it.
var local = networks("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "::1/128", "fc00::/7", "fe80::/10")

func networks(prefixes ...string) []*net.IPNet {
	nets := make([]*net.IPNet, len(prefixes))
	for i, s := range prefixes {
		p := netip.MustParsePrefix(s)
		nets[i] = &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
	}
	return nets
}

// options is everything pubsub is told. Its logger comes first: others take it
// over when they are applied.
func (s *Service) options(ctx context.Context) []pubsub.Option {
	log := slog.New(demoted{s.log.Handler()})
	return []pubsub.Option{
		pubsub.WithLogger(log), pubsub.WithRPCLogger(log),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictSign),
		pubsub.WithMessageIdFn(messageID),
		pubsub.WithMaxMessageSize(MaxMessage + envelope),
		pubsub.WithMaxControlMessageSize(maxControl),
		pubsub.WithGossipSubProtocols([]protocol.ID{ProtocolID}, features),
		pubsub.WithGossipSubParams(s.cfg.mesh()),
		pubsub.WithFloodPublish(s.cfg.FloodPublish),
		pubsub.WithSubscriptionFilter(pubsub.WrapLimitSubscriptionFilter(pubsub.NewAllowlistSubscriptionFilter(s.names...), maxSubscriptions)),
		pubsub.WithSeenMessagesTTL(seenTTL),
		pubsub.WithPeerOutboundQueueSize(int(s.cfg.PeerQueue)),
		pubsub.WithValidateQueueSize(int(s.cfg.ValidateQueue)),
		pubsub.WithValidateThrottle(int(s.cfg.Validators) * max(1, len(s.names))),
		pubsub.WithAppSpecificRpcInspector(func(from peer.ID, rpc *pubsub.RPC) error {
			s.inspect(ctx, from, rpc)
			return nil
		}),
		pubsub.WithPeerScore(s.score(), thresholds()), pubsub.WithPeerScoreInspect(s.judge, judgeEvery),
		pubsub.WithPeerGater(pubsub.DefaultPeerGaterParams()),
		pubsub.WithRawTracer(&tracer{m: s.m, offence: func(p peer.ID) { s.account(p).offend(time.Now()) }}),
	}
}

// messageID names a message: see the package comment.
func messageID(m *pb.Message) string {
	h := sha256.New()
	_, _ = io.WriteString(h, m.GetTopic())
	_, _ = h.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m.GetFrom()))))
	_, _ = h.Write(m.GetFrom())
	_, _ = h.Write(m.GetData())
	return string(h.Sum(nil))
}

// features are those of gossipsub v1.2. Peer exchange is the version that tells
// a pruned peer how long to stay away; no peers are exchanged.
func features(f pubsub.GossipSubFeature, id protocol.ID) bool {
	if id != ProtocolID {
		return false
	}
	switch f {
	case pubsub.GossipSubFeatureMesh, pubsub.GossipSubFeaturePX, pubsub.GossipSubFeatureIdontwant:
		return true
	}
	return false
}

// mesh is gossipsub's parameters for a degree of RelayFanout.
func (c Config) mesh() pubsub.GossipSubParams {
	d := int(c.RelayFanout)
	p := pubsub.DefaultGossipSubParams()
	p.D, p.Dlo, p.Dhi = d, max(1, d*3/4), d+max(1, d/2)
	p.Dscore, p.Dlazy = d*2/3, d
	p.Dout = max(0, min(p.Dlo, d/2)-1)
	p.HeartbeatInterval = heartbeat
	p.MaxIHaveLength = maxIHave
	p.Connectors = 1 // used by peer exchange alone
	return p
}

// score is how peers are judged.
func (s *Service) score() *pubsub.PeerScoreParams {
	decay := halved(offenceHalfLife)
	p := &pubsub.PeerScoreParams{
		Topics:        map[string]*pubsub.TopicScoreParams{},
		TopicScoreCap: 50,
		AppSpecificScore: func(p peer.ID) float64 {
			a, ok := s.peers.Peek(p)
			if !ok {
				return 0
			}
			n := a.count(time.Now())
			return invalidWeight * n * n
		},
		AppSpecificWeight:           1,
		IPColocationFactorWeight:    colocationWeight,
		IPColocationFactorThreshold: colocationFree,
		IPColocationFactorWhitelist: local,
		BehaviourPenaltyWeight:      behaviourWeight,
		BehaviourPenaltyThreshold:   behaviourFree,
		BehaviourPenaltyDecay:       halved(time.Minute),
		DecayInterval:               scoreInterval,
		DecayToZero:                 scoreToZero,
		RetainScore:                 scoreRetain,
		SeenMsgTTL:                  seenTTL,
	}
	for _, name := range s.names {
		p.Topics[name] = &pubsub.TopicScoreParams{
			TopicWeight:       1,
			TimeInMeshWeight:  0.01,
			TimeInMeshQuantum: time.Second,
			TimeInMeshCap:     1000,
			// Being first with news is worth something, but forgives few lies.
			FirstMessageDeliveriesWeight: 0.5,
			FirstMessageDeliveriesDecay:  decay,
			FirstMessageDeliveriesCap:    40,
			// Traffic is thin and comes in bursts: a mesh peer that has nothing to
			// deliver does nothing wrong, so that is not judged.
			MeshMessageDeliveriesDecay:     decay,
			MeshFailurePenaltyDecay:        decay,
			InvalidMessageDeliveriesWeight: invalidWeight,
			InvalidMessageDeliveriesDecay:  decay,
			SkipAtomicValidation:           true,
		}
	}
	return p
}

// judgeEvery is how old gossip_peer_standing and the graylist may be.
const judgeEvery = 5 * time.Second

// judge notes how pubsub scores the peers.
func (s *Service) judge(scores map[peer.ID]float64) {
	graylist := map[peer.ID]struct{}{}
	count := map[string]int{}
	now := time.Now()
	for p, score := range scores {
		a, ok := s.peers.Peek(p)
		switch {
		case score < graylistScore || ok && a.count(now) > tolerated:
			graylist[p] = struct{}{}
			count[standGraylisted]++
		case score < publishScore:
			count[standNoPublish]++
		case score < gossipScore:
			count[standNoGossip]++
		default:
			count[standGood]++
		}
	}
	s.graylist.Store(&graylist)
	for _, standing := range standings {
		s.m.standing.WithLabelValues(standing).Set(float64(count[standing]))
	}
}

// halved is the decay of a counter that is halved in d.
func halved(d time.Duration) float64 { return math.Exp2(-scoreInterval.Seconds() / d.Seconds()) }

func thresholds() *pubsub.PeerScoreThresholds {
	return &pubsub.PeerScoreThresholds{
		GossipThreshold: gossipScore, PublishThreshold: publishScore, GraylistThreshold: graylistScore,
		AcceptPXThreshold: noExchange, OpportunisticGraftThreshold: 1,
	}
}
