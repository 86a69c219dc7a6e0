package meta

import _ "allium/resolver" // forbidden
