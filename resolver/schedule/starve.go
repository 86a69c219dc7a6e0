package schedule

import "slices"

// failWaiters fails the waiters that no provider can serve, as no other provider can join. It reports that slow
// providers may now be asked again, or lost ones that may have returned.
func (a assigning) failWaiters() (again bool) {
	var starving waiters
	for _, w := range a.waiters {
		switch {
		case w.failed || !a.stuck(w, never):
		case a.retrySlow():
			again = true
		case !a.growing():
			starving = append(starving, w)
		}
	}
	return again || a.starve(starving)
}

// starve fails those of the waiters, which no provider can serve, that do not wait. For the others it renews the
// supply, and reports that it has just done so.
func (m *Machine) starve(starving waiters) (again bool) {
	waiting := false
	for _, w := range starving {
		switch {
		case m.waits(w):
			waiting = true
			m.wakeAt(w.until)
		case !w.failed:
			w.failed = true
			m.emit(Action{Kind: Fail, Waiter: w.id})
		}
	}
	return waiting && m.renew()
}

// waits reports whether w waits for lost providers to return.
func (m *Machine) waits(w *waiter) bool {
	return !w.failed && m.now < w.until && slices.ContainsFunc(m.providers, (*provider).mayReturn)
}
