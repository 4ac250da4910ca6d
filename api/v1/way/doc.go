// Package way has the words for how machines of two zones reach each other: by which of their networks, and whether what they send is encrypted.
//
// Place: vocabulary, below api/v1, whose Zone holds them. Promise: data and its rules; control/way judges by it. Enemies: a way that is encrypted for one end alone.
package way
