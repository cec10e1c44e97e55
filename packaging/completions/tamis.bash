# bash completion for tamis; written by `tamis completion bash`
_tamis() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local command= words= files=0 place word
    for ((place = 1; place < COMP_CWORD; place++)); do
        word=${COMP_WORDS[place]}
        [[ $word == -* ]] && continue
        if [[ -z $command ]]; then
            command=$word
        elif [[ " store serve watch setup " == *" $command "* ]]; then
            command="$command $word"
        fi
    done
    case "$command" in
        '') words='learn sort explain forget relabel allow block log undo digest status store serve watch setup report tune demo completion help -h --help --version' files=0 ;;
        'learn') words='-h --help --spam --ham --label --unlabelled --sent --since --mbox --no-log --store -q --quiet' files=1 ;;
        'sort') words='-h --help -p --passthrough -e --exit-zero --dialect --undo --json --move --unsure --dry-run --no-log --store -q --quiet' files=1 ;;
        'explain') words='-h --help --all --json --store' files=1 ;;
        'forget') words='-h --help --mbox --no-log --store -q --quiet' files=1 ;;
        'relabel') words='-h --help --mbox --no-log --store -q --quiet' files=1 ;;
        'allow') words='-h --help --from --remove --list --store -q --quiet' files=0 ;;
        'block') words='-h --help --from --remove --list --store -q --quiet' files=0 ;;
        'log') words='-h --help --since --spam --ham --unsure --learned --limit --each --json --off --on --clear --store' files=0 ;;
        'undo') words='-h --help --from --store -q --quiet' files=0 ;;
        'digest') words='-h --help --since --mail --store' files=0 ;;
        'status') words='-h --help --json --store' files=0 ;;
        'store') words='backup restore export import merge copy prune decay compact upgrade check -h --help' files=0 ;;
        'store backup') words='-h --help --store -q --quiet' files=1 ;;
        'store restore') words='-h --help --store -q --quiet' files=1 ;;
        'store export') words='-h --help --store -q --quiet' files=1 ;;
        'store import') words='-h --help --format --words --store -q --quiet' files=1 ;;
        'store merge') words='-h --help --store -q --quiet' files=1 ;;
        'store copy') words='-h --help --replace -q --quiet' files=0 ;;
        'store prune') words='-h --help --bound --halvings --store -q --quiet' files=0 ;;
        'store decay') words='-h --help --store -q --quiet' files=0 ;;
        'store compact') words='-h --help --store -q --quiet' files=0 ;;
        'store upgrade') words='-h --help --partial --store -q --quiet' files=1 ;;
        'store check') words='-h --help --store -q --quiet' files=0 ;;
        'serve') words='spamd milter lmtp web -h --help' files=0 ;;
        'serve spamd') words='-h --help --store --listen --socket-mode --user-stores --max-size --max-connections --timeout --idle-timeout --threads --log-format --metrics --no-learn' files=0 ;;
        'serve milter') words='-h --help --store --listen --socket-mode --user-stores --max-size --max-connections --timeout --idle-timeout --threads --log-format --metrics --dialect --no-evidence --on-spam --on-fault --add-only --judge-authenticated' files=0 ;;
        'serve lmtp') words='-h --help --store --listen --socket-mode --user-stores --max-size --max-connections --timeout --idle-timeout --threads --log-format --metrics --next --next-protocol --next-timeout --dialect --no-evidence --user-name' files=0 ;;
        'serve web') words='-h --help --store --mail --port --host-name --api-token-file --no-open' files=0 ;;
        'watch') words='imap maildir -h --help' files=0 ;;
        'watch imap') words='-h --help --store --dry-run --move --once --junk --unsure --only-moves --no-learn --no-sort --sort-read --keywords --interval --log-format --metrics --host --port --user --tls --certificate --password --password-command --credential --xoauth2 --folder --max-size' files=0 ;;
        'watch maildir') words='-h --help --store --dry-run --move --once --junk --unsure --only-moves --no-learn --no-sort --sort-read --keywords --interval --log-format --metrics --poll' files=1 ;;
        'setup') words='imap -h --help' files=0 ;;
        'setup imap') words='-h --help --store --junk --unsure --no-learn -y --yes --host --port --user --tls --certificate --password --password-command --credential --xoauth2 --folder --max-size' files=0 ;;
        'report') words='-h --help --spam --ham --split --folds --seed --html --no-html --json -q --quiet' files=0 ;;
        'tune') words='-h --help --spam --ham --thresholds --dry-run --reset --seed --json --store -q --quiet' files=0 ;;
        'demo') words='-h --help --mailbox --web --no-open --statistics' files=0 ;;
        'completion') words='-h --help bash zsh fish' files=0 ;;
        'help') words='-h --help learn sort explain forget relabel allow block log undo digest status store serve watch setup report tune demo completion help' files=0 ;;
    esac
    case "$previous" in
        --dialect) words='spamassassin bogofilter' files=0 ;;
        --format) words='tamis bogofilter spamassassin' files=0 ;;
        --log-format) words='text json' files=0 ;;
        --next-protocol) words='lmtp smtp' files=0 ;;
        --on-fault) words='accept tempfail' files=0 ;;
        --on-spam) words='mark reject quarantine discard' files=0 ;;
        --password) words='keyring command credential prompt' files=0 ;;
        --tls) words='implicit starttls none' files=0 ;;
        --user-name) words='address local-part' files=0 ;;
        --api-token-file|--certificate|--from|--ham|--html|--label|--mail|--move|--sent|--spam|--store|--unlabelled|--unsure|--words) files=1 ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if ((files)) && [[ $current != -* ]]; then
        compopt -o filenames 2>/dev/null
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}
complete -F _tamis tamis
