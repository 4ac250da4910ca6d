// Package keyring has servers that share no folder use the same keys: they are in etcd, sealed with a key that an operator gave to each server, and
// every server has its copies as files.
//
// Place: layer 6, a part of the assembly. Promise: what etcd has counts: it is changed before any file, by one server at a time, and never read
// without the operator's key. Enemies: two servers that make a key at the same moment, or change one; a server with another operator's key.
package keyring
