package result

import "encoding/json"

// What follows cuts valid JSON into pieces without copying any: a result may be larger than the memory that there is for copies.

// span is a piece of a text.
type span struct{ from, to int }

func (s span) of(text []byte) []byte { return text[s.from:s.to] }

// members are the members of an object; of two with one name the last one counts.
func members(object []byte) map[string]span {
	found := map[string]span{}
	for i := 1; ; {
		if i = skip(object, i); object[i] == '}' {
			return found
		}
		end := valueEnd(object, i)
		var name string
		_ = json.Unmarshal(object[i:end], &name) // it is a string
		i = skip(object, end)                    // the colon
		i = skip(object, i+1)
		end = valueEnd(object, i)
		found[name] = span{i, end}
		if i = skip(object, end); object[i] == ',' {
			i++
		}
	}
}

// elements are the elements of an array.
func elements(array []byte) (found []span) {
	for i := 1; ; {
		if i = skip(array, i); array[i] == ']' {
			return found
		}
		end := valueEnd(array, i)
		found = append(found, span{i, end})
		if i = skip(array, end); array[i] == ',' {
			i++
		}
	}
}

// skip is where the white space from i on ends.
func skip(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t' {
		i++
	}
	return i
}

// valueEnd is where the value that begins at i ends.
func valueEnd(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\n', '\r', '\t':
			continue // at depth 0 there is none: a number or a name ends before it
		default:
			for i+1 < len(text) && !ends(text[i+1]) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

func ends(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}
