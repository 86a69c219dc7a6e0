// Package peerlinks joins the links protocol with a node: its gateway shows links of peers ([New]), and its own objects
// are shown on the gateway of a peer ([Follow]).
package peerlinks
