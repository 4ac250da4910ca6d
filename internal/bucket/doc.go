// Package bucket reads a prefix of an S3 bucket that somebody named: a listing with ETags, and objects for as long as they are those of the listing.
//
// Place: beside the ports; it is for processes of the tenant who named the bucket, never for a server, which such an address could turn against
// its own network. Promise: what is read is of the listing's state, or an object that changed is named; the cost of a listing grows linearly.
// Enemies: objects replaced between two reads, keys that lead out of a folder, endless listings, an account that ends up in a log.
package bucket
