// Package near calls package far.
package near

import (
	"sync"

	"allium/far"
)

type T struct {
	mu sync.Mutex // lock: leaf
	up up
}

type up struct {
	mu sync.Mutex // lock: config
}

func (t *T) calls(ch chan int) {
	t.mu.Lock()
	far.Write() // want `near.T.mu is held across I/O: os.Remove, through far.Write → far.write`
	far.Call(func() {})
	far.Call(func() { <-ch }) // want `near.T.mu is held across waits`
	for range far.All(nil) {  // want `near.T.mu is held across I/O`
	}
	for range far.Clean(1) {
	}
	for range far.Clean(1) { // want `near.T.mu is held across waits`
		<-ch
	}
	t.mu.Unlock()
}

func (t *T) promised(c far.Clock, d *far.Deps, v far.Deps) {
	t.mu.Lock()
	_ = c.Now()
	_ = d.Now()
	_ = v.Now()
	_ = d.Else() // want `near.T.mu is held across calls: a call of the field Else`
	t.mu.Unlock()
}

func (t *T) leaf(i *far.Inner) {
	t.mu.Lock()
	i.Count() // want `near.T.mu is declared a leaf, and far.counter.mu, through` `near.T.mu is declared a leaf, and far.Inner.mu, through \(\*far.Inner\).Count is locked under it`
	t.mu.Unlock()
}

func (u *up) first(i *far.Inner) {
	u.mu.Lock()
	i.Count()
	u.mu.Unlock()
}

func (u *up) under(t *far.Table) {
	unlock := t.Enter()
	u.mu.Lock() // want `far.Table.Mu \(metadata\) is held, and near.up.mu \(config\) is not declared to come after it`
	u.mu.Unlock()
	unlock()
	u.mu.Lock()
	u.mu.Unlock()
}

func tried(t *far.Table, ch chan int) {
	if t.Try(true) {
		<-ch // want `far.Table.Mu is held across waits`
		t.Mu.Unlock()
	}
}

func outside(t *far.Table, ch chan int) {
	t.Mu.Lock()
	t.Wait(ch)
	<-ch // want `far.Table.Mu is held across waits`
	t.Mu.Unlock()
}
