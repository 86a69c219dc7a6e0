// Package reading reads files and directories by their keys, from a store, from the network or
// through a gateway: a [Reader] is the api.Reader of all three.
//
// Every byte that a call returns was proved against its address. A call that ends early returns an
// error, so a cut stream never looks complete. A call ends with its context, and returns only after
// the goroutines that it started.
//
// One read, step by step: `allium get b3:…/src` calls [Reader.Get]. That parses the key, looks the
// path up in the directory, and opens the object through its [Source]. For a file, Get returns a
// body that copies the content. For a directory, the body first has the source fetch the whole
// tree, and then writes the entries as a tar.
package reading
