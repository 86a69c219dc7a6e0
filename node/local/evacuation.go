package local

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
	"allium/store/cluster/upkeep"
)

const (
	// evacuationLook is the time between two looks at an evacuation; with many objects, lookShare of the time goes by
	// between two.
	evacuationLook = time.Second
	lookShare      = 20
	// sayAgain is after how long an evacuation is told although nothing changed.
	sayAgain = 5 * time.Second
	// refusedAfter is the time without a handed-over object, while sends fail, after which the last failure is told as
	// the reason why it cannot go on. It is also the time that the node has to look at its pins.
	refusedAfter = 5 * time.Minute
	// blockedAfter is the time without an object that can be handed over after which that is told as the reason:
	// members may still be found, or come back.
	blockedAfter = 10 * time.Second
)

// Evacuate implements api.Node.
func (a *Node) Evacuate(ctx context.Context) iter.Seq2[api.Evacuation, error] {
	return func(yield func(api.Evacuation, error) bool) {
		if a.deps.Copies == nil {
			yield(api.Evacuation{}, errNoCluster)
			return
		}
		if err := a.deps.Copies.StartHandover(); err != nil {
			yield(api.Evacuation{}, err)
			return
		}
		w := evacuationWatch{least: -1}
		for said := (api.Evacuation{}); ; {
			begun := time.Now()
			h := a.deps.Copies.Handover()
			e := evacuationOf(&h)
			if e != said || begun.Sub(w.said) >= sayAgain {
				if said, w.said = e, begun; !yield(e, nil) {
					return
				}
			}
			if ended, err := w.look(&h, begun); ended {
				if err != nil {
					yield(api.Evacuation{}, err)
				}
				return
			}
			if err := limits.Sleep(ctx, max(evacuationLook, lookShare*time.Since(begun))); err != nil {
				yield(api.Evacuation{}, err)
				return
			}
		}
	}
}

// StopEvacuation implements api.Node.
func (a *Node) StopEvacuation(context.Context) error {
	if a.deps.Copies == nil {
		return errNoCluster
	}
	return a.deps.Copies.StopHandingOver()
}

func evacuationOf(h *upkeep.Handover) api.Evacuation {
	e := api.Evacuation{
		Since: h.Since, Ready: h.Ready, Objects: h.Objects, Left: h.Left, LeftBytes: h.LeftBytes, Stuck: h.Stuck,
		Alone: h.Alone, Done: h.Done(),
	}
	switch {
	case h.Left == 0:
	case h.LastOnly:
		e.Why =
			"more than a third of the members vanished together, so only last copies are sent, for an hour at most; " +
				"`allium durability` shows the members, and with --resume that ends"
	case h.Left == h.Stuck:
		e.Why = stuck(h)
	case h.SendErr != nil:
		e.Why = "the latest copy was not sent: " + h.SendErr.Error()
	}
	return e
}

// stuck says why objects cannot be handed over.
func stuck(h *upkeep.Handover) string {
	return fmt.Sprintf("for %d of %d objects that are left there are too few other nodes: %s asks for %d copies, and "+
		"%d others can hold one%s", h.Stuck, h.Left, h.First, h.Takers.Wanted, h.Takers.Members,
		reasonsOf(h.Takers.Refused))
}

// evacuationWatch decides when an evacuation has ended, or cannot go on.
type evacuationWatch struct {
	said    time.Time // when the latest state was told
	least   int       // the fewest objects that were left; -1: not known
	moved   time.Time // when that was seen first
	blocked time.Time // since when all that are left are stuck; zero: they are not
}

// look reports whether it has ended, and with which error. That ends the wait alone: the node goes on.
func (w *evacuationWatch) look(h *upkeep.Handover, now time.Time) (ended bool, err error) {
	if w.least < 0 || h.Left < w.least {
		w.least, w.moved = h.Left, now
	}
	if h.Left == 0 || h.Left != h.Stuck || !h.Ready {
		w.blocked = time.Time{}
	} else if w.blocked.IsZero() {
		w.blocked = now
	}
	handed := h.Objects - h.Left
	switch {
	case h.Since.IsZero():
		return true, status.Errorf(status.Canceled, "the evacuation was stopped: the node is a full member again")
	case !h.Ready && now.Sub(w.moved) >= refusedAfter:
		return true, status.Errorf(status.NotReady,
			"the node did not look at all its pins, or did not tell the others that "+
				"it drains, within %s: see its log, and `allium doctor`. It goes on by itself", refusedAfter)
	case !h.Ready:
		return false, nil
	case h.Done() && h.Alone == 0:
		return true, nil
	case h.Done():
		return true, status.Errorf(status.Conflict,
			"all %d objects that pins ask copies of are handed over, but %d pins "+
				"ask for none, so what they keep is on this node alone. `allium pin ls` shows them; `allium pin add "+
				"KEY --rf 1` hands it over too, and `allium pin rm KEY` gives it up", h.Objects, h.Alone)
	case h.Left == 0 && h.Unplanned > 0:
		return true, status.Errorf(status.NotReady,
			"%d objects are handed over, but this node has %d more than it plans; "+
				"remove pins that another node of the cluster has too, and try again", handed, h.Unplanned)
	case h.Left == 0: // h.Partial
		return true, status.Errorf(status.NotReady,
			"%d objects are handed over, but a directory or an object that a pin "+
				"keeps could not be read, so there may be more; the log names it, and `allium verify --all --repair` "+
				"mends it",
			handed)
	case !w.blocked.IsZero() && now.Sub(w.blocked) >= blockedAfter:
		return true, status.Errorf(status.NotReady,
			"%d of %d objects are handed over; %s. Nothing is lost, and the node "+
				"goes on once there is space: add nodes, raise durability.offer on others, lower targets, or end it "+
				"with `allium node drain --evacuate --stop`", handed, h.Objects, stuck(h))
	case h.SendErr != nil && now.Sub(w.moved) >= refusedAfter:
		return true, status.Errorf(status.NotReady,
			"%d of %d objects are handed over, and none in the last %s; the latest "+
				"copy was not sent: %w. Nothing is lost, and the node goes on by itself", handed,
			h.Objects, refusedAfter, h.SendErr)
	}
	return false, nil
}
