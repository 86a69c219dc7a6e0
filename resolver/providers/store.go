package providers

import (
	"context"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
)

// localChecks bounds the concurrent questions to the store for searches. Beyond it a search asks the network without
// asking the store.
const localChecks = 64

// idleChecker is the time that a goroutine that asked the store waits for the next question.
const idleChecker = time.Second

// localStore asks this node's store whether it has objects. A store may hang, so separate goroutines ask it. They stay
// for a while, because a new one would spend more time on growing its stack than on the question.
type localStore struct {
	has       func(context.Context, b3.Root) (bool, error)
	guard     func(func() error) error // Pool.Guard
	gate      *limits.Gate
	questions chan question // to goroutines that are idle
}

// question is whether the store has an object.
type question struct {
	ctx    context.Context
	root   b3.Root
	answer chan bool
}

// newLocalStore returns the store that has asks, nil for none.
func newLocalStore(
	has func(context.Context, b3.Root) (bool, error), guard func(func() error) error, r *limits.Registry,
) *localStore {
	s := &localStore{has: has, guard: guard, questions: make(chan question)}
	s.gate = r.NewGate(limits.Spec{
		Name: "resolver.local_checks", Path: "resolver → store",
		Policy: "the network is asked without asking the store",
	}, localChecks, 0)
	return s
}

// ask asks the store whether it has root. The answer comes once. It is nil when nobody can be
// asked, or when the store has not answered many others.
func (s *localStore) ask(ctx context.Context, tasks Tasks, root b3.Root) (answer <-chan bool) {
	if s.has == nil || s.gate.Enter() != nil {
		return nil
	}
	q := question{ctx, root, make(chan bool, 1)} // bound: the one answer
	select {
	case s.questions <- q:
	default:
		if !tasks.Go(func() { s.serve(tasks.Context(), q) }) {
			s.gate.Leave()
			return nil
		}
	}
	return q.answer
}

// serve answers q, and the questions that come until there was none for idleChecker or life ends.
func (s *localStore) serve(life context.Context, q question) {
	idle := time.NewTimer(idleChecker)
	defer idle.Stop()
	for {
		s.put(q)
		idle.Reset(idleChecker)
		select {
		case q = <-s.questions:
		case <-idle.C:
			return
		case <-life.Done():
			return
		}
	}
}

// put puts a question to the store. The place is free before the answer is known, so that askers who take
// turns need one place.
func (s *localStore) put(q question) {
	has := false
	defer func() { q.answer <- has }()
	defer s.gate.Leave()
	err := s.guard(func() (err error) { has, err = s.has(q.ctx, q.root); return err })
	has = has && err == nil
}
