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
	// maxOverhead is the most bytes of topic, author, signature and framing around the data of a
	// message. An RSA public key, which travels with the message, fits.
	maxOverhead = 4 << 10
	// maxControl is the most bytes of subscriptions and gossipsub control messages in one RPC.
	maxControl = 64 << 10
	// maxIHave is the most message IDs in one advertisement (IHAVE).
	maxIHave = 1024
	// maxSubscriptions is the most topics that one RPC may subscribe to.
	maxSubscriptions = 64
	// seenTTL is the shortest time for which a message is remembered as seen. The cache is swept
	// every minute, so the longest is two minutes. At the default total_rate the cache holds
	// about 250,000 IDs.
	seenTTL = time.Minute
	// heartbeat is the interval at which gossipsub repairs the mesh and advertises messages to peers outside of it.
	heartbeat = time.Second
)

// Scores of peers (gossipsub v1.1). The weights are chosen for a few refused messages within
// minutes: the first ones take a peer out of the mesh, the next ones end gossip with it, and after
// the fourth everything that it sends is dropped unread.
const (
	gossipScore   = -10 // below: no gossip to or from the peer
	publishScore  = -50 // below: this node's own messages are not sent to it
	graylistScore = -75 // below: nothing it sends is read
	// acceptPXScore is a score that no peer reaches, so peer exchange is never accepted. The DHT
	// alone finds peers.
	acceptPXScore = 1e9

	// invalidWeight is multiplied by the square of the refused messages. Both pubsub and this
	// package count them. pubsub also counts peers that send a copy of a refused message later.
	// This package also counts peers to which pubsub has no stream, and messages that the
	// inspector drops before pubsub sees them.
	invalidWeight = -2.5
	// maxOffences is the most offences a peer may have and still be read. Offences decay, so it
	// lies between 3 and 4: four within a short time are too many.
	maxOffences = 3.5

	// behaviourWeight is multiplied by the square of the broken promises and GRAFT floods above
	// behaviourThreshold, which an overloaded honest node may reach.
	behaviourWeight    = -5
	behaviourThreshold = 10
	// colocationWeight is multiplied by the square of the peers at one address above
	// colocationThreshold.
	colocationWeight    = -2
	colocationThreshold = 4

	scoreInterval = time.Second      // how often scores decay
	scoreToZero   = 0.01             // a counter below this becomes 0
	scoreRetain   = 10 * time.Minute // how long the score of a disconnected peer is remembered
)

// sharedNetworks are the networks whose addresses many nodes may share: loopback, private and
// link-local networks and those of carrier NAT. Peers at one such address are not penalized.
var sharedNetworks = networks(
	"127.0.0.0/8",
	"10.0.0.0/8",
	"172.16.0.0/12",
	"192.168.0.0/16",
	"169.254.0.0/16",
	"100.64.0.0/10",
	"::1/128",
	"fc00::/7",
	"fe80::/10",
)

// networks parses prefixes. It panics if one is malformed.
func networks(prefixes ...string) []*net.IPNet {
	nets := make([]*net.IPNet, len(prefixes))
	for i, s := range prefixes {
		p := netip.MustParsePrefix(s)
		nets[i] = &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
	}
	return nets
}

// options returns all options of pubsub. The logger comes first, because later options read it
// when they are applied.
func (s *Service) options(ctx context.Context) []pubsub.Option {
	log := slog.New(demoted{s.log.Handler()})
	return []pubsub.Option{
		pubsub.WithLogger(log), pubsub.WithRPCLogger(log),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictSign),
		pubsub.WithMessageIdFn(messageID),
		pubsub.WithMaxMessageSize(MaxMessage + maxOverhead),
		pubsub.WithMaxControlMessageSize(maxControl),
		pubsub.WithGossipSubProtocols([]protocol.ID{ProtocolID}, features),
		pubsub.WithGossipSubParams(s.cfg.mesh()),
		pubsub.WithFloodPublish(s.cfg.FloodPublish),
		pubsub.WithSubscriptionFilter(
			pubsub.WrapLimitSubscriptionFilter(pubsub.NewAllowlistSubscriptionFilter(s.names...), maxSubscriptions),
		),
		pubsub.WithSeenMessagesTTL(seenTTL),
		pubsub.WithPeerOutboundQueueSize(int(s.cfg.PeerQueue)),
		pubsub.WithValidateQueueSize(int(s.cfg.ValidateQueue)),
		pubsub.WithValidateThrottle(int(s.cfg.Validators) * max(1, len(s.names))),
		pubsub.WithAppSpecificRpcInspector(func(from peer.ID, rpc *pubsub.RPC) error {
			s.inspect(ctx, from, rpc)
			return nil
		}),
		pubsub.WithPeerScore(s.score(), thresholds()), pubsub.WithPeerScoreInspect(s.updateStandings, standingInterval),
		pubsub.WithBlacklist(s.ignores),
		pubsub.WithPeerGater(pubsub.DefaultPeerGaterParams()),
		pubsub.WithRawTracer(&tracer{
			m: s.m, offence: func(id peer.ID) { s.peerState(id).addOffence(time.Now()) }, ended: s.streamEnded,
		}),
	}
}

// messageID returns the ID of a message: the SHA-256 of its topic, author and data. The package
// comment says why.
func messageID(m *pb.Message) string {
	h := sha256.New()
	_, _ = io.WriteString(h, m.GetTopic())
	_, _ = h.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m.GetFrom()))))
	_, _ = h.Write(m.GetFrom())
	_, _ = h.Write(m.GetData())
	return string(h.Sum(nil))
}

// features reports whether id supports a feature of gossipsub v1.2. GossipSubFeaturePX is among
// them because it also tells a pruned peer how long to wait; no peers are exchanged.
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

// mesh returns gossipsub's parameters for a mesh of [Config.RelayFanout] peers.
func (c Config) mesh() pubsub.GossipSubParams {
	d := int(c.RelayFanout)
	p := pubsub.DefaultGossipSubParams()
	p.D, p.Dlo, p.Dhi = d, max(1, d*3/4), d+max(1, d/2)
	p.Dscore, p.Dlazy = d*2/3, d
	p.Dout = max(0, min(p.Dlo, d/2)-1)
	p.HeartbeatInterval = heartbeat
	p.MaxIHaveLength = maxIHave
	p.Connectors = 1 // only peer exchange uses it
	return p
}

// score returns the parameters by which pubsub scores peers.
func (s *Service) score() *pubsub.PeerScoreParams {
	decay := decayPerInterval(offenceHalfLife)
	p := &pubsub.PeerScoreParams{
		Topics:        map[string]*pubsub.TopicScoreParams{},
		TopicScoreCap: 50,
		AppSpecificScore: func(id peer.ID) float64 {
			p, ok := s.peers.Peek(id)
			if !ok {
				return 0
			}
			n := p.offencesAt(time.Now())
			return invalidWeight * n * n
		},
		AppSpecificWeight:           1,
		IPColocationFactorWeight:    colocationWeight,
		IPColocationFactorThreshold: colocationThreshold,
		IPColocationFactorWhitelist: sharedNetworks,
		BehaviourPenaltyWeight:      behaviourWeight,
		BehaviourPenaltyThreshold:   behaviourThreshold,
		BehaviourPenaltyDecay:       decayPerInterval(time.Minute),
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
			// Sending a message first earns a little: at most 20, which offsets few refused messages.
			FirstMessageDeliveriesWeight: 0.5,
			FirstMessageDeliveriesDecay:  decay,
			FirstMessageDeliveriesCap:    40,
			// Traffic is light and comes in bursts. A mesh peer that delivers nothing may have
			// nothing to deliver, so these two counters have no weight.
			MeshMessageDeliveriesDecay:     decay,
			MeshFailurePenaltyDecay:        decay,
			InvalidMessageDeliveriesWeight: invalidWeight,
			InvalidMessageDeliveriesDecay:  decay,
			SkipAtomicValidation:           true,
		}
	}
	return p
}

// standingInterval is the interval at which gossip_peer_standing and the graylist are updated.
const standingInterval = 5 * time.Second

// updateStandings replaces the graylist and updates gossip_peer_standing from pubsub's scores and
// this package's offences.
func (s *Service) updateStandings(scores map[peer.ID]float64) {
	graylist := map[peer.ID]struct{}{}
	count := map[string]int{}
	now := time.Now()
	for id, score := range scores {
		p, ok := s.peers.Peek(id)
		switch {
		case score < graylistScore || ok && p.offencesAt(now) > maxOffences:
			graylist[id] = struct{}{}
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

// decayPerInterval returns the factor that, applied every scoreInterval, halves a counter in halfLife.
func decayPerInterval(halfLife time.Duration) float64 {
	return math.Exp2(-scoreInterval.Seconds() / halfLife.Seconds())
}

// thresholds returns the scores below which pubsub restricts a peer.
func thresholds() *pubsub.PeerScoreThresholds {
	return &pubsub.PeerScoreThresholds{
		GossipThreshold: gossipScore, PublishThreshold: publishScore, GraylistThreshold: graylistScore,
		AcceptPXThreshold: acceptPXScore, OpportunisticGraftThreshold: 1,
	}
}

// blacklist makes pubsub drop messages that ignored peers send or have written, before it checks them.
type blacklist func(peer.ID) bool

// Add implements pubsub.Blacklist. Nobody calls it: the node decides.
func (blacklist) Add(peer.ID) bool { return false }

// Contains implements pubsub.Blacklist.
func (b blacklist) Contains(id peer.ID) bool { return b != nil && b(id) }
