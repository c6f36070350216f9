// Package provision buys nodes for pods that fit nowhere: it gathers them into
// batches, lets pack decide on the mirror's World, writes the plan down as
// NodeClaims and tells each pod what to expect.
//
// It refuses to talk to a cloud: launching is the lifecycle's work. The zero
// Provisioner is not usable; see New.
package provision
