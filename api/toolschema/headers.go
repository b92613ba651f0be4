package toolschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

const headerKeyword = "x-mcp-header"

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // RFC 9110, section 5.6.2

// NamesHeaders says whether an inputSchema may have x-mcp-header annotations. (A property of that name counts too.)
func NamesHeaders(raw []byte) bool { return bytes.Contains(raw, []byte(headerKeyword)) }

// CheckHeaders says whether the x-mcp-header annotations of an inputSchema are ones that clients accept: on properties that the root
// reaches through properties alone, of type string, integer or boolean, with names that are tokens and differ (2026-07-28,
// server/tools, x-mcp-header). Clients leave out a tool with any other.
func CheckHeaders(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return fmt.Errorf("is not JSON: %w", err)
	}
	taken := map[string]string{}
	return checkHeaders(root, "", false, true, taken)
}

// checkHeaders walks a part of the schema. property says that the part is a property's schema, reachable that the root
// reaches it through properties alone.
func checkHeaders(node any, at string, property, reachable bool, taken map[string]string) error {
	switch n := node.(type) {
	case []any:
		for i, child := range n {
			if err := checkHeaders(child, fmt.Sprintf("%s/%d", at, i), false, false, taken); err != nil {
				return err
			}
		}
	case map[string]any:
		if value, ok := n[headerKeyword]; ok {
			if err := checkHeader(value, n["type"], at, property && reachable, taken); err != nil {
				return err
			}
		}
		for _, key := range sortedKeys(n) {
			child := n[key]
			properties, ok := child.(map[string]any)
			if key != "properties" || !ok {
				if key != "default" && key != "const" && key != "enum" && key != "examples" {
					if err := checkHeaders(child, at+"/"+key, false, false, taken); err != nil {
						return err
					}
				}
				continue
			}
			for _, name := range sortedKeys(properties) {
				if err := checkHeaders(properties[name], at+"/properties/"+name, true, reachable, taken); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func checkHeader(value, kind any, at string, allowed bool, taken map[string]string) error {
	name, ok := value.(string)
	switch {
	case !allowed:
		return fmt.Errorf("%s has %s, which is allowed only on properties that the root reaches through properties alone", at, headerKeyword)
	case !ok || !headerToken.MatchString(name):
		return fmt.Errorf("%s has an %s that is no name of a header", at, headerKeyword)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s has %s, which is allowed only with the type string, integer or boolean", at, headerKeyword)
	}
	if other, ok := taken[strings.ToLower(name)]; ok {
		return fmt.Errorf("%s and %s have the same %s", other, at, headerKeyword)
	}
	taken[strings.ToLower(name)] = at
	return nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
