# Flags of a message were changed by IMAP: $Junk and $NotJunk, or Thunderbird's Junk and NonJunk, are labels.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables", "imap4flags"];

if not environment :contains "imap.changedflags" "junk" {
    stop;
}
if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
if allof (hasflag ["$Junk", "Junk"], not hasflag ["$NotJunk", "NonJunk"]) {
    pipe :copy "tamis-learn" ["spam", "${user}"];
} elsif allof (hasflag ["$NotJunk", "NonJunk"], not hasflag ["$Junk", "Junk"]) {
    pipe :copy "tamis-learn" ["ham", "${user}"];
}
