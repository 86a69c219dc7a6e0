// Package cache provides the two caches of a store: RAM for small verified objects, and
// OpenFiles for the open files of large ones.
//
// Invariant: a cached object is visible and not marked corrupt, or its removal is in
// progress. The caches do not check this themselves: the store calls Drop whenever it
// removes or marks an object.
//
// One read: the store looks in RAM.Get under a lease. On a miss it reads and verifies the
// object, and calls RAM.Add if Get reported that the object was asked for before. For a
// large object it calls OpenFiles.Get, or opens the files and calls Add, and ends the use
// with Release.
package cache
