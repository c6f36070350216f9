// Package azure is the provider for AKS: it reads what a region sells, how much
// quota is left and which images exist, and buys, finds and returns virtual
// machines through the Azure SDK. Compute makes them, or AKS does (see maker).
//
// It refuses to decide: a Launch walks the choices it was given, in their order,
// and tells what was refused. It keeps nothing that a restart must not lose. The
// name of every resource follows from the NodeClaim's UID, a creation is sent
// with If-None-Match, and why a machine failed can be read from the machine
// itself. What it does keep (stock-outs, cores in flight, the last good lists)
// only makes the next decision better.
//
// Zones are the values of topology.kubernetes.io/zone on AKS: "eastus-1" for a
// zone and "0" for a machine that Azure places anywhere in the region. The zero
// Provider is not usable; see New.
package azure
