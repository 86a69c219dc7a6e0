// Package scheduletest runs a scenario of concurrent code in every order of its
// actions, for tests. It is a depth-first search by replay: code cannot be set
// back, so that each order is run from the start.
//
// Invariants: a scenario does nothing by itself between two actions: all its
// goroutines wait, which testing/synctest can tell. A replay that does not get
// to where it was before fails the search, as one that is not repeatable
// explores nothing. The bound of a search is that of its scenario: which
// actions it offers and how often. There is no other: a search that does not
// fail has run them all.
//
// One search, walked through: [Explore] calls the scenario with an empty
// [Order]. At each point the scenario waits until everything stands still and
// asks [Order.Pick] which of the actions that are possible now comes next, until
// none is left; then it checks how things ended. Explore takes back the last
// choice that has an alternative and calls the scenario again, until there is
// none. A scenario that can describe its whole state need not go on from one
// that was reached before in another order.
package scheduletest
