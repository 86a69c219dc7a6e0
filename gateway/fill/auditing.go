package fill

import (
	"context"

	"allium/protocols/status"
)

// auditBegin records a fill before its bytes are stored. If it returns an error, they must not be.
func (s *Service) auditBegin(ctx context.Context, f *flight) (seq uint64, err error) {
	if s.deps.Audit == nil {
		return 0, nil
	}
	return s.deps.Audit.Mutation(ctx, f.event)
}

// auditEnd records how a fill ended.
func (s *Service) auditEnd(ctx context.Context, f *flight, seq uint64, r *record, err error) {
	if s.deps.Audit == nil {
		return
	}
	e := f.event
	e.Of, e.Outcome = seq, status.Of(err).String()
	if err == nil {
		e.Object, e.Bytes = r.root.String(), r.size
	}
	s.deps.Audit.Outcome(context.WithoutCancel(ctx), e)
}
