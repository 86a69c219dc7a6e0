// Package upload takes in objects that come in pieces, over any number of requests and
// restarts. No byte that was acknowledged is lost.
//
// A Table holds the uploads. An append writes behind what is here, hashes it, and notes
// it in the form that this package defines; the last one publishes the object.
package upload
