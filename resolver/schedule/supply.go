package schedule

import "time"

// supply is the known providers, and the search for others.
type supply struct {
	*orders
	providers

	cfg       Config
	known     int      // candidates that the driver knows
	finding   bool     // Find was not answered yet
	exhausted bool     // the last answer to Find was NoneFound
	questions int      // Questions that were not answered yet
	searches  searches // for providers in place of lost ones, since a request delivered something
	recalls   int      // how often a provider was recalled since then
	looks     searches // among connected peers
	looking   bool     // Look was not answered yet
	common    common
}

// searches counts searches.
type searches struct {
	n  int
	at time.Duration // when the next one is due; 0: not set
}

// Known sets how many candidates the driver knows, found ones included.
func (s *supply) Known(n int) { s.known = n }

// Found answers Find with a provider.
func (s *supply) Found() ProviderID {
	s.finding = false
	s.providers = append(s.providers, &provider{id: ProviderID(len(s.providers))})
	return ProviderID(len(s.providers) - 1)
}

// NoneFound answers Find: the driver has no other candidate.
func (s *supply) NoneFound() { s.finding, s.exhausted = false, true }

// Measured sets how fast a provider is: bytes per second, 0 when unknown, and the
// time to the first byte of an answer.
func (s *supply) Measured(id ProviderID, rate float64, rtt time.Duration) {
	p := s.providers[id]
	p.rate, p.rtt = rate, rtt
}

// Away says that a provider, whose last request has failed, may return: it was unreachable, silent or busy.
func (s *supply) Away(id ProviderID) { s.providers[id].away = true }

// hopeless reports whether no other provider can join any more.
func (s *supply) hopeless() bool {
	return !s.finding && s.exhausted && s.known <= len(s.providers) && s.questions == 0
}

// find asks the driver for another provider, unless it has no other.
func (s *supply) find() {
	if s.finding || s.exhausted && s.known <= len(s.providers) {
		return
	}
	s.finding, s.exhausted = true, false
	s.emit(Action{Kind: Find})
}

// due reports whether it is time for the next search. If that has no time yet, it is due after a pause.
func (s *supply) due(of *searches, pause func(n int) time.Duration) bool {
	if of.at == 0 {
		of.at = s.now + pause(of.n)
	}
	s.wakeAt(of.at)
	return s.now >= of.at
}

// look asks the driver to look among connected peers, if it is time for that.
func (s *supply) look() {
	if s.cfg.Look != nil && !s.looking && s.due(&s.looks, s.cfg.Look) {
		s.looking = true
		s.emit(Action{Kind: Look})
	}
}

// Looked answers Look: the driver has added the candidates that it has found.
func (s *supply) Looked(now time.Duration) {
	s.begin(now)
	n := s.looks.n + 1
	s.looks, s.looking = searches{n, s.now + s.cfg.Look(n)}, false
}

// Returned says that a provider that was away is connected again. It is asked at once.
func (s *supply) Returned(now time.Duration, id ProviderID) {
	s.begin(now)
	s.askAgain(s.providers[id])
}

// askAgain lets p be asked once more if it may have returned.
func (s *supply) askAgain(p *provider) {
	if p.mayReturn() {
		p.standing, p.away, p.fails, p.notBefore = good, false, s.cfg.Tries-1, s.now
	}
}

// recall lets a provider that had all and may have returned be asked again after a pause, if nodes fetch from each
// other: what only such a provider has all of them need, and that all of them ask may be why it was silent. It does so
// Config.Tries times until a request delivers something.
func (s *supply) recall(p *provider) {
	switch {
	case s.common.parts == 0 || p.part != nil || !p.mayReturn() || s.recalls >= s.cfg.Tries:
	case s.now >= p.notBefore:
		s.recalls++
		s.askAgain(p)
	default:
		s.wakeAt(p.notBefore)
	}
}

// renew lets the lost providers that may have returned be asked again, and looks for further ones, after a pause. It
// reports that it has just done so.
func (s *supply) renew() bool {
	if !s.due(&s.searches, s.cfg.Pause) {
		return false
	}
	s.searches = searches{n: s.searches.n + 1}
	s.emit(Action{Kind: Renew})
	for _, p := range s.providers {
		s.askAgain(p)
	}
	s.exhausted = false
	s.find()
	return true
}

// question asks the driver which groups of a window p has.
func (s *supply) question(p *provider, window int64) {
	if p.asked {
		return
	}
	p.asked, p.window = true, window
	s.questions++
	s.emit(Action{Kind: Question, Provider: p.id, At: p.window})
}

// questionParts asks anew the providers that have a part, as they may have more.
func (s *supply) questionParts(window int64) {
	for _, p := range s.providers {
		switch {
		case p.part == nil || p.standing != good || p.asked:
		case s.now >= p.part.due, p.part.from != window:
			s.question(p, window)
		default:
			s.wakeAt(p.part.due)
		}
	}
}
