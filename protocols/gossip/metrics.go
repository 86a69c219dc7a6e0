package gossip

import (
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// The reasons of gossip_dropped_total. The list is closed.
const (
	dropGraylist  = "graylisted"     // the sender's score is too low, or it has too many offences
	dropTopic     = "unknown_topic"  // the topic is not one of this node's
	dropOversize  = "oversize"       // more bytes than MaxMessage
	dropBurst     = "burst"          // beyond the budget of the peer
	dropTotal     = "total"          // beyond the budget of all peers together
	dropGated     = "gated"          // pubsub's peer gater throttled the sender
	dropUnsigned  = "unsigned"       // no signature
	dropForged    = "bad_signature"  // the signature is wrong
	dropSelf      = "self"           // the author is this node
	dropQueue     = "validate_queue" // the queue for signature checks is full
	dropThrottled = "validators"     // too many messages of the topic are being validated
	dropRejected  = "rejected"       // the validator refused it and the sender loses score
	dropIgnored   = "ignored"        // the validator refused it and nobody loses score
	dropSlow      = "undeliverable"  // the queue between pubsub and the ingress queue is full
	dropIngress   = "ingress"        // the ingress queue is full
	dropStopped   = "stopped"        // Run ended before it was handled or sent
	dropPeerQueue = "peer_queue"     // not sent: the queue of the peer is full
	dropPublish   = "publish"        // not sent: pubsub refused it
	dropOther     = "other"          // a reason of pubsub that this list does not have
)

// dropReasons lists all reasons of gossip_dropped_total.
var dropReasons = []string{
	dropGraylist, dropTopic, dropOversize, dropBurst, dropTotal, dropGated, dropUnsigned, dropForged, dropSelf,
	dropQueue, dropThrottled,
	dropRejected, dropIgnored, dropSlow, dropIngress, dropStopped, dropPeerQueue, dropPublish, dropOther,
}

// The values of gossip_peer_standing.
const (
	standGood       = "good"
	standNoGossip   = "no_gossip"  // score below gossipScore
	standNoPublish  = "no_publish" // score below publishScore
	standGraylisted = "graylisted" // nothing it sends is read
)

// standings lists all values of gossip_peer_standing.
var standings = []string{standGood, standNoGossip, standNoPublish, standGraylisted}

// rejections maps pubsub's reasons for a rejection to reasons of gossip_dropped_total.
var rejections = map[string]string{
	pubsub.RejectMissingSignature:    dropUnsigned,
	pubsub.RejectInvalidSignature:    dropForged,
	pubsub.RejectSelfOrigin:          dropSelf,
	pubsub.RejectValidationQueueFull: dropQueue,
	pubsub.RejectValidationThrottled: dropThrottled,
	pubsub.RejectValidationFailed:    dropRejected,
	pubsub.RejectValidationIgnored:   dropIgnored,
}

// metrics holds the metrics of gossip. gossip_frames_total counts whole messages, whatever their
// size; only budgets count a frame for each KiB.
type metrics struct {
	frames          *prometheus.CounterVec // label dir
	rx, tx          prometheus.Counter     // frames received and sent
	dropped         *prometheus.CounterVec // label reason
	refused         *prometheus.CounterVec // labels topic and outcome
	duplicates      prometheus.Counter
	delivered       prometheus.Counter
	panics          prometheus.Counter
	repairs         prometheus.Counter
	peers           *prometheus.GaugeVec // label topic
	standing        *prometheus.GaugeVec // label standing
	validateSeconds prometheus.Histogram
}

// newMetrics returns the metrics, registered with reg unless reg is nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		frames: env.CounterVec("gossip_frames_total",
			"Gossip messages received from and sent to peers, copies included, by direction.", "dir"),
		dropped: env.CounterVec("gossip_dropped_total",
			"Gossip messages dropped, by reason; peer_queue and publish were to be sent, stopped may have been, "+
				"the others were received.", "reason"),
		refused: env.CounterVec("gossip_refused_total",
			"Gossip messages that the validator of their topic did not accept, by its outcome.", "topic", "outcome"),
		duplicates: env.Counter("gossip_duplicates_total", "Gossip messages received that had come before."),
		delivered:  env.Counter("gossip_delivered_total", "Gossip messages handed to the handler of their topic."),
		panics:     env.Counter("gossip_panics_total", "Gossip messages lost because a validator or handler panicked."),
		repairs: env.Counter("gossip_repairs_total",
			"Times that gossip with a connected peer was broken and begun anew, "+
				"as after another node ran with its identity."),
		peers: env.GaugeVec("gossip_peers", "Peers that follow a topic and are connected.", "topic"),
		standing: env.GaugeVec("gossip_peer_standing",
			"Peers by how gossip judges them: good, no_gossip, no_publish or graylisted; those that left count for "+
				"ten minutes.", "standing"),
		validateSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gossip_validate_seconds", Help: "Time of the validator of a topic for one message.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .01, .1},
		}),
	}
	m.rx, m.tx = m.frames.WithLabelValues("rx"), m.frames.WithLabelValues("tx")
	for _, reason := range dropReasons {
		m.dropped.WithLabelValues(reason)
	}
	for _, standing := range standings {
		m.standing.WithLabelValues(standing)
	}
	return m, env.Register(reg, m.frames, m.dropped, m.refused, m.duplicates, m.delivered, m.panics, m.repairs,
		m.peers, m.standing, m.validateSeconds)
}

// drop counts n messages dropped for reason.
func (m *metrics) drop(reason string, n int) {
	m.dropped.WithLabelValues(reason).Add(float64(n))
}

// tracer counts pubsub's events. The inspector counts the messages received, before it drops any.
type tracer struct {
	m             *metrics
	offence       func(peer.ID) // counts an offence of a peer
	ended         func(peer.ID) // notes that the stream to a peer ended
	messagesInRPC int           // in the RPC that pubsub's loop is processing
}

// RejectMessage implements pubsub.RawTracer. A missing or wrong signature and a message that the
// validator rejects are offences of the sender.
func (t *tracer) RejectMessage(msg *pubsub.Message, reason string) {
	dropped, ok := rejections[reason]
	if !ok {
		dropped = dropOther
	}
	t.m.drop(dropped, 1)
	switch dropped {
	case dropUnsigned, dropForged, dropRejected:
		t.offence(msg.ReceivedFrom)
	}
}

// DuplicateMessage implements pubsub.RawTracer.
func (t *tracer) DuplicateMessage(*pubsub.Message) { t.m.duplicates.Inc() }

// UndeliverableMessage implements pubsub.RawTracer.
func (t *tracer) UndeliverableMessage(*pubsub.Message) { t.m.drop(dropSlow, 1) }

// SendRPC implements pubsub.RawTracer.
func (t *tracer) SendRPC(rpc *pubsub.RPC, _ peer.ID) { t.m.tx.Add(float64(len(rpc.GetPublish()))) }

// SendRPCCompleted implements pubsub.RawTracer.
func (*tracer) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}

// DropRPC implements pubsub.RawTracer.
func (t *tracer) DropRPC(rpc *pubsub.RPC, _ peer.ID) { t.m.drop(dropPeerQueue, len(rpc.GetPublish())) }

// RecvRPC implements pubsub.RawTracer.
func (t *tracer) RecvRPC(rpc *pubsub.RPC) { t.messagesInRPC = len(rpc.GetPublish()) }

// ThrottlePeer implements pubsub.RawTracer.
func (t *tracer) ThrottlePeer(peer.ID) { t.m.drop(dropGated, t.messagesInRPC) }

// ValidateMessage implements pubsub.RawTracer.
func (*tracer) ValidateMessage(*pubsub.Message) {}

// DeliverMessage implements pubsub.RawTracer.
func (*tracer) DeliverMessage(*pubsub.Message) {}

// OnNewOutboundStream implements pubsub.RawTracer.
func (*tracer) OnNewOutboundStream(peer.ID, protocol.ID) {}

// OnClosedOutboundStream implements pubsub.RawTracer.
func (t *tracer) OnClosedOutboundStream(id peer.ID) { t.ended(id) }

// Join implements pubsub.RawTracer.
func (*tracer) Join(string) {}

// Leave implements pubsub.RawTracer.
func (*tracer) Leave(string) {}

// Graft implements pubsub.RawTracer.
func (*tracer) Graft(peer.ID, string) {}

// Prune implements pubsub.RawTracer.
func (*tracer) Prune(peer.ID, string) {}
